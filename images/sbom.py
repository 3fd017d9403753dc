"""What an image is made of, in SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/): the Debian packages its files come from, what is linked into our
programs, and our own part. The same input gives the same text: the date is SOURCE_DATE_EPOCH (default 1970)."""

import datetime
import hashlib
import json
import os
import re

import recipes

NOT_SAID = "NOASSERTION"


def created():
    moment = datetime.datetime.fromtimestamp(int(os.environ.get("SOURCE_DATE_EPOCH", "0")), datetime.timezone.utc)
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def identifier(kind, name):
    return f"SPDXRef-{kind}-" + re.sub(r"[^A-Za-z0-9.-]", "-", name)


def distribution():
    """("debian", "12")"""
    words = dict(line.rstrip("\n").split("=", 1) for line in open("/usr/lib/os-release", encoding="utf-8") if "=" in line)
    return words.get("ID", "debian").strip('"'), words.get("VERSION_ID", "").strip('"')


def entry(kind, name, version, *, supplier=NOT_SAID, licence=NOT_SAID, url="", **more):
    found = {"SPDXID": identifier(kind, name), "name": name, "versionInfo": version, "supplier": supplier, "downloadLocation": NOT_SAID, "filesAnalyzed": False,
             "licenseConcluded": NOT_SAID, "licenseDeclared": licence, "copyrightText": NOT_SAID, **more}
    if url:
        found["externalRefs"] = [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": url}]
    return found


def debian_entry(facts):
    vendor, release = distribution()
    version = facts["Version"].replace(":", "%3A").replace("+", "%2B")
    name = facts["Package"].replace("+", "%2B")
    return entry("deb", facts["Package"], facts["Version"], supplier=f"Organization: {facts['Maintainer']}",
                 url=f"pkg:deb/{vendor}/{name}@{version}?arch={facts['Architecture']}&distro={vendor}-{release}",
                 sourceInfo=f"built from the source package {facts['source:Package']} {facts['source:Version']}")


def linked(rootfs):
    """What is in our programs and in no library beside them."""
    found = [debian_entry(rootfs.debian.installed[name]) for name in recipes.HEADERS if name in rootfs.debian.installed]
    if not any(package.startswith("librdkafka") for package in rootfs.packages):
        script = (recipes.ROOT / "tools" / "dev" / "librdkafka.sh").read_text(encoding="utf-8")
        version = re.search(r"^RDKAFKA_PACKAGE=(\S+)", script, re.MULTILINE)[1]
        found.append(entry("deb", "librdkafka", version, licence="BSD-2-Clause", url=f"pkg:deb/debian/librdkafka@{version}?arch=source&distro=debian-13"))
    return found


def document(name, rootfs):
    recipe = recipes.RECIPES[name]
    image = entry("image", name, recipes.version(), supplier="Organization: Millstream", licence="Apache-2.0", primaryPackagePurpose="CONTAINER", summary=recipe.summary)
    inside = [debian_entry(rootfs.debian.installed[package]) for package in sorted(rootfs.packages)]
    if rootfs.own:
        inside.append(entry("own", "millstream", recipes.version(), supplier="Organization: Millstream", licence="Apache-2.0",
                            url=f"pkg:github/millstream/millstream@{recipes.version()}", comment="files: " + ", ".join(sorted(rootfs.own))))
    static = linked(rootfs) if recipe.programs else []
    relations = [("SPDXRef-DOCUMENT", "DESCRIBES", image["SPDXID"]), *((image["SPDXID"], "CONTAINS", each["SPDXID"]) for each in inside),
                 *((identifier("own", "millstream"), "STATIC_LINK", each["SPDXID"]) for each in static)]
    if recipe.base:
        below = entry("image", recipe.base, recipes.version(), supplier="Organization: Millstream", licence="Apache-2.0", primaryPackagePurpose="CONTAINER",
                      comment=f"lower layer; its own list is /usr/share/sbom/{recipe.base}.spdx.json")
        inside.append(below)
        relations.append((image["SPDXID"], "DESCENDANT_OF", below["SPDXID"]))
    known = {each["SPDXID"]: each for each in [image, *inside, *static]}
    return {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"millstream-{name}-{recipes.version()}",
            "creationInfo": {"created": created(), "creators": ["Organization: Millstream", f"Tool: millstream-images-{recipes.version()}"]},
            "packages": list(known.values()),
            "relationships": [{"spdxElementId": one, "relationshipType": how, "relatedSpdxElement": other} for one, how, other in relations]}


def text(name, rootfs):
    """The document as JSON; its namespace is of its content, as two different documents must not share one."""
    made = document(name, rootfs)
    digest = hashlib.sha256(json.dumps(made, sort_keys=True).encode()).hexdigest()
    made["documentNamespace"] = f"https://millstream.dev/sbom/{name}/{digest}"
    return json.dumps(made, indent=1, sort_keys=True) + "\n"
