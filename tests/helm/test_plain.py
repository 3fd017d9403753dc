"""install/: the chart as plain YAML. Current, with the same rights, and accepted by a strict API server."""

import os
import subprocess
import sys

import chart
import programs
import yaml

PLAIN = chart.ROOT / "install" / "millstream.yaml"
ONLY_HELM = ("helm.sh/chart", "app.kubernetes.io/managed-by")


def plain():
    return [each for each in yaml.safe_load_all(PLAIN.read_text(encoding="utf-8")) if each]


def comparable(thing):
    """Without what only Helm or only kubectl writes."""
    def labels_of(metadata):
        metadata["labels"] = {name: value for name, value in metadata.get("labels", {}).items() if name not in ONLY_HELM}
        annotations = {name: value for name, value in metadata.pop("annotations", {}).items() if not name.startswith("helm.sh/")}
        if annotations:
            metadata["annotations"] = annotations
    labels_of(thing["metadata"])
    if thing["kind"] == "Deployment":
        labels_of(thing["spec"]["template"]["metadata"])
    return thing


def by_name(objects):
    return {(each["kind"], each["metadata"]["name"]): comparable(each) for each in objects}


def test_made_files_are_current():
    done = subprocess.run([sys.executable, str(chart.ROOT / "tools" / "helm" / "make.py"), "--check", "--helm", str(programs.home() / "helm")],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_same_objects_and_rights_as_the_chart():
    ours = by_name(plain())
    namespace = ours.pop(("Namespace", chart.NAMESPACE))
    assert namespace["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    theirs = by_name(each for each in chart.render() if each["kind"] != "Pod")
    assert ours.keys() == theirs.keys()
    for key, thing in theirs.items():
        assert ours[key] == thing, key
    assert not any("helm" in str(each["metadata"]).lower() for each in plain())


def test_a_comment_says_why_every_right_is_given():
    """What somebody reads who has to approve it."""
    lines = PLAIN.read_text(encoding="utf-8").splitlines()
    unexplained = [number + 1 for number, line in enumerate(lines)
                   if line.lstrip().startswith("- apiGroups:") and not lines[number - 1].lstrip().startswith("#")]
    assert not unexplained


def test_kubectl_accepts_it_strictly(bare):
    bare.kubectl("apply", "--server-side", "--validate=strict", "-f", PLAIN)
    bare.wait(lambda: bare.admin.list("Pod", chart.NAMESPACE), "a pod of the operator in a restricted namespace")
    # Again, as an upgrade would; and as people often do it, client-side: the file fits into the annotation.
    bare.kubectl("apply", "--server-side", "--validate=strict", "-f", PLAIN)
    bare.kubectl("delete", "clusterrole,clusterrolebinding", "--selector=app.kubernetes.io/part-of=millstream")
    bare.kubectl("delete", "namespace", chart.NAMESPACE, "--timeout=300s")
    bare.kubectl("delete", "crd", chart.CRD)
    bare.kubectl("apply", "--validate=strict", "-f", PLAIN)
    bare.kubectl("delete", "--timeout=300s", "-f", PLAIN)


def test_kustomize_gives_the_same(cluster, tmp_path):
    given = by_name(each for each in yaml.safe_load_all(cluster.kubectl("kustomize", PLAIN.parent)) if each)
    assert given == by_name(plain())
    (tmp_path / "kustomization.yaml").write_text(
        f"resources: [{os.path.relpath(PLAIN.parent.resolve(), tmp_path.resolve())}]\nimages: [{{name: millstream/operator, newName: registry.example.com/operator, newTag: '7'}}]\n",
        encoding="utf-8")
    overlaid = [each for each in yaml.safe_load_all(cluster.kubectl("kustomize", tmp_path)) if each]
    assert chart.of(overlaid, "Deployment")["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example.com/operator:7"
