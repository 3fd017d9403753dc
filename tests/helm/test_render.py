"""The chart as text: helm's own checks, the schema of values, and what holds whatever the values are."""

import itertools
import json
import re

import chart
import pytest
import yaml

# Each changes much. Those in PAIRED, which change what there is at all, are rendered with every other as well.
PAIRED = ("one namespace", "nothing extra", "everything extra")
VARIATIONS = {
    "default": {},
    "one namespace": {"watchNamespaces": ["shop"]},
    "two namespaces": {"watchNamespaces": ["shop", "billing"]},
    "two replicas": {"replicas": 2, "priorityClassName": "system-cluster-critical"},
    "no lease": {"leaderElection": {"enabled": False}},
    "openshift": {"openshift": True},
    "monitoring": {"metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "30s"}, "prometheusRule": {"enabled": True},
                               "dashboard": {"enabled": True}}},
    "sidecars": {"sidecar": {"networkPolicies": {"enabled": True, "from": [{"namespaceSelector": {"matchLabels": {"a": "b"}}}]},
                             "podMonitors": {"enabled": True, "labels": {"release": "prometheus"}}}},
    "mirror": {"imageRegistry": "registry.example.com/mirror/", "imagePullSecrets": ["pull"], "image": {"digest": "sha256:" + "0" * 64}},
    "nothing extra": {"crds": {"install": False}, "rbac": {"create": False, "userRoles": False}, "serviceAccount": {"create": False, "name": "own"},
                      "podDisruptionBudget": {"enabled": False}, "networkPolicy": {"enabled": False}, "metrics": {"service": {"enabled": False}}},
    "everything extra": {"commonLabels": {"team": "streams"}, "commonAnnotations": {"note": "hello"}, "extraArgs": ["--workers=8"],
                         "extraEnv": [{"name": "A", "value": "b"}], "extraVolumes": [{"name": "more", "emptyDir": {}}],
                         "extraVolumeMounts": [{"name": "more", "mountPath": "/more"}], "podAnnotations": {"p": "q"}, "podLabels": {"l": "m"},
                         "nodeSelector": {"kubernetes.io/os": "linux"}, "tolerations": [{"operator": "Exists"}], "affinity": {"nodeAffinity": {}},
                         "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "ScheduleAnyway"}],
                         "serviceAccount": {"annotations": {"role": "x"}}, "networkPolicy": {"from": [{"podSelector": {}}], "egress": {"enabled": True}}},
}


def merged(*all_values):
    values = {}
    for each in all_values:
        for name, value in each.items():
            values[name] = merged(values[name], value) if isinstance(value, dict) and isinstance(values.get(name), dict) else value
    return values


def contradicts(values):
    """What the chart refuses."""
    return (not values.get("leaderElection", {}).get("enabled", True) and values.get("replicas", 1) > 1) or (
        values.get("metrics", {}).get("serviceMonitor", {}).get("enabled", False) and not values["metrics"].get("service", {}).get("enabled", True))


def combinations():
    for one, other in itertools.combinations_with_replacement(VARIATIONS, 2):
        values = merged(VARIATIONS[one], VARIATIONS[other])
        if (one == other or one in PAIRED or other in PAIRED) and not contradicts(values):
            yield pytest.param(values, id=one if one == other else f"{one} + {other}")


def test_lint():
    done = chart.helm("lint", "--strict", chart.CHART)
    assert "0 chart(s) failed" in done.stdout, done.stdout
    assert "[WARNING]" not in done.stdout and "[INFO]" not in done.stdout, done.stdout


def containers_of(thing):
    spec = thing["spec"] if thing["kind"] == "Pod" else thing["spec"]["template"]["spec"]
    return spec, spec["containers"]


@pytest.mark.parametrize("values", list(combinations()))
def test_whatever_the_values_are(values):
    objects = chart.render(values)
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names)), "two objects have one name"
    watched = values.get("watchNamespaces", [])
    for each in objects:
        metadata = each["metadata"]
        labels = metadata["labels"]
        assert labels["app.kubernetes.io/part-of"] == "millstream" and labels["app.kubernetes.io/instance"] == chart.RELEASE
        if each["kind"] in ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"):
            assert "namespace" not in metadata
        else:
            assert metadata["namespace"] in [chart.NAMESPACE, *watched]
        if each["kind"] in ("Deployment", "Pod"):
            restricted(each, "openshift" in values)
        for rule in each.get("rules", []):
            least(rule, each["metadata"]["name"])
    if watched:
        assert not [each for each in objects if each["kind"] == "ClusterRoleBinding"], "an operator of namespaces gets no right in the cluster"


def restricted(thing, openshift):
    """The rules of the Pod Security Standard "restricted", and a root file system that cannot be written."""
    spec, containers = containers_of(thing)
    security = spec["securityContext"]
    assert security["runAsNonRoot"] is True and security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert ("runAsUser" in security) != openshift
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(spec)
    for container in containers:
        own = container["securityContext"]
        assert own["allowPrivilegeEscalation"] is False and own["readOnlyRootFilesystem"] is True and own["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


def least(rule, name):
    """No wildcard, no Secrets, nothing that makes more rights of rights."""
    assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"], name
    for resource in rule["resources"]:
        kind = resource.split("/")[0]
        assert kind not in ("secrets", "nodes", "namespaces", "roles", "rolebindings", "clusterroles", "clusterrolebindings", "customresourcedefinitions"), name
        assert resource not in ("pods/exec", "pods/attach", "pods/portforward", "serviceaccounts/token", "nodes/proxy"), name
    assert not {"escalate", "bind", "impersonate", "*"} & set(rule["verbs"]), name
    assert "resourceNames" not in rule or "create" not in rule["verbs"], "create cannot be bound to a name"


def test_every_value_is_in_the_schema_and_explained():
    schema = json.loads((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))

    def paths(values, properties, prefix=""):
        assert set(values) | {"global", "enabled"} >= set(properties) or prefix, f"in the schema and not in values.yaml: {set(properties) - set(values)}"
        for name, value in values.items():
            assert name in properties, f"{prefix}{name} is not in values.schema.json"
            if isinstance(value, dict) and "properties" in properties[name]:
                assert properties[name]["additionalProperties"] is False, f"{prefix}{name} takes anything"
                paths(value, properties[name]["properties"], f"{prefix}{name}.")

    paths(chart.default_values(), schema["properties"])
    lines = (chart.CHART / "values.yaml").read_text(encoding="utf-8").splitlines()
    unexplained, explained = [], False
    for line in lines:
        if re.match(r"\s*# -- \S", line):
            explained = True
        elif re.match(r"\s*#", line):
            continue
        else:
            key = re.match(r"( *)(\w+):(.*)", line)
            # A mapping of further values is explained by those; what is inside a free-form default is not a value of its own.
            if key and not explained and key[3].strip() and is_value(key[2], key[1], lines, line):
                unexplained.append(line)
            explained = False
    assert not unexplained, unexplained


def is_value(name, indent, lines, line):
    """Whether the line is a value of the chart, and not something inside the default of one (resources.requests.cpu)."""
    schema = json.loads((chart.CHART / "values.schema.json").read_text(encoding="utf-8"))["properties"]
    path, depth = [name], len(indent)
    for before in reversed(lines[:lines.index(line)]):
        key = re.match(r"( *)(\w+):", before)
        if key and len(key[1]) < depth:
            path.insert(0, key[2])
            depth = len(key[1])
    for part in path:
        if part not in schema:
            return False
        schema = schema[part].get("properties", {})
    return True


@pytest.mark.parametrize(("values", "words"), [
    ({"replica": 2}, "replica"),
    ({"image": {"repo": "x"}}, "repo"),
    ({"image": {"digest": "sha256:12"}}, "digest"),
    ({"replicas": 9}, "replicas"),
    ({"replicas": "two"}, "replicas"),
    ({"log": {"level": "loud"}}, "log"),
    ({"watchNamespaces": ["Not a namespace"]}, "watchNamespaces"),
    ({"watchNamespaces": ["shop", "shop"]}, "names a namespace twice: shop, shop"),
    ({"replicas": 2, "leaderElection": {"enabled": False}}, "Set leaderElection.enabled=true, or replicas=1"),
    ({"metrics": {"serviceMonitor": {"enabled": True}, "service": {"enabled": False}}}, "needs metrics.service.enabled"),
    ({"serviceAccount": {"create": False}}, "serviceAccount.name: which service account is it"),
])
def test_bad_values_are_refused_by_name(values, words):
    with pytest.raises(chart.Refused) as refused:
        chart.render(values)
    assert words in str(refused.value)


def test_an_older_kubernetes_is_refused():
    done = chart.helm("template", "x", chart.CHART, "--kube-version", "1.28.9", check=False)
    assert done.returncode != 0 and ">=1.29.0-0" in done.stderr
    assert chart.helm("template", "x", chart.CHART, "--kube-version", "1.29.4-gke.100", check=False).returncode == 0


def test_one_object_per_file():
    for path in (chart.CHART / "templates").rglob("*.yaml"):
        kinds = re.findall(r"^kind: \w+", path.read_text(encoding="utf-8"), re.MULTILINE)
        assert len(kinds) == (0 if path.name == "crd.yaml" else 1), path


def test_metadata_of_the_chart():
    about = yaml.safe_load((chart.CHART / "Chart.yaml").read_text(encoding="utf-8"))
    assert {"kubeVersion", "appVersion", "icon", "sources", "maintainers", "home", "keywords"} <= set(about)
    annotations = about["annotations"]
    examples = yaml.safe_load(annotations["artifacthub.io/crdsExamples"])
    assert examples[0]["kind"] == "StreamProcessor"
    images = {each["name"]: each["image"] for each in yaml.safe_load(annotations["artifacthub.io/images"])}
    values = chart.default_values()
    assert images == {"operator": f"{values['image']['repository']}:{about['appVersion']}", "sidecar": f"{values['sidecar']['image']['repository']}:{about['appVersion']}"}
    version = re.search(r"project\(millstream VERSION ([\d.]+)", (chart.ROOT / "CMakeLists.txt").read_text(encoding="utf-8"))[1]
    assert about["appVersion"] == version
