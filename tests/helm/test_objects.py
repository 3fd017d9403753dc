"""What single values do to the objects."""

import chart
import pytest
import yaml


def container(objects):
    return chart.of(objects, "Deployment")["spec"]["template"]["spec"]["containers"][0]


def arguments(values):
    return container(chart.render(values))["args"]


def test_by_default():
    objects = chart.render()
    assert chart.kinds(objects) == sorted([
        "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Service", "Deployment", "PodDisruptionBudget",
        "NetworkPolicy", "ClusterRole", "ClusterRole", "ClusterRole", "Pod"])
    assert arguments({}) == ["--lease-name=millstream-operator", "--sidecar-image=millstream/sidecar:0.1.0", "--max-concurrent-rollouts=1", "--http-address=0.0.0.0",
                             "--http-port=8080", "--log-level=info", "--log-format=json"]
    assert container(objects)["image"] == "millstream/operator:0.1.0"
    assert {each["name"]: each["valueFrom"]["fieldRef"]["fieldPath"] for each in container(objects)["env"]} == {
        "POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace"}


def test_arguments():
    assert set(arguments({"watchNamespaces": ["shop", "billing"], "clusterName": "west", "openshift": True, "maxConcurrentRollouts": 5, "log": {"level": "debug", "format": "text"},
                          "leaderElection": {"enabled": False}, "extraArgs": ["--workers=8"]})) >= {
        "--namespaces=shop,billing", "--cluster-name=west", "--openshift", "--max-concurrent-rollouts=5", "--log-level=debug", "--log-format=text", "--leader-elect=false",
        "--workers=8"}
    peers = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert set(arguments({"sidecar": {"networkPolicies": {"enabled": True, "from": peers}, "podMonitors": {"enabled": True, "labels": {"release": "p", "a": "b"}}}})) >= {
        "--network-policies", '--network-peers=[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":"monitoring"}}}]', "--pod-monitors",
        "--pod-monitor-labels=a=b,release=p"}


@pytest.mark.parametrize(("values", "operator", "sidecar"), [
    ({"image": {"tag": "9"}, "sidecar": {"image": {"tag": "8"}}}, "millstream/operator:9", "millstream/sidecar:8"),
    ({"imageRegistry": "registry.example.com/mirror/"}, "registry.example.com/mirror/millstream/operator:0.1.0", "registry.example.com/mirror/millstream/sidecar:0.1.0"),
    ({"imageRegistry": "a.example.com", "sidecar": {"image": {"registry": "b.example.com:5000"}}}, "a.example.com/millstream/operator:0.1.0",
     "b.example.com:5000/millstream/sidecar:0.1.0"),
    ({"image": {"digest": "sha256:" + "1" * 64}}, "millstream/operator@sha256:" + "1" * 64, "millstream/sidecar:0.1.0"),
    ({"image": {"digest": "sha256:" + "1" * 64, "tag": "2"}}, "millstream/operator:2@sha256:" + "1" * 64, "millstream/sidecar:0.1.0"),
])
def test_images(values, operator, sidecar):
    objects = chart.render(values)
    assert container(objects)["image"] == operator
    assert f"--sidecar-image={sidecar}" in container(objects)["args"]
    # The test's pod runs the same image: nothing else has to be mirrored.
    assert chart.of(objects, "Pod")["spec"]["containers"][0]["image"] == operator


@pytest.mark.parametrize(("release", "values", "name"), [
    ("millstream", {}, "millstream-operator"),
    ("streams", {}, "streams-millstream-operator"),
    ("streams", {"nameOverride": "mill"}, "streams-mill-operator"),
    ("x" * 53, {}, "x" * 30 + "-millstream-operator"),
    ("streams", {"fullnameOverride": "mine"}, "mine"),
])
def test_names(release, values, name):
    objects = chart.render(values, release=release)
    assert chart.of(objects, "Deployment")["metadata"]["name"] == name
    assert f"--lease-name={name}" in container(objects)["args"]
    for each in objects:
        if each["kind"] != "CustomResourceDefinition":
            assert each["metadata"]["name"].startswith(name) and len(each["metadata"]["name"]) <= 63


def test_cluster_wide_names_of_namespaced_operators_differ():
    one = chart.render({"watchNamespaces": ["shop"]}, namespace="shop")
    other = chart.render({"watchNamespaces": ["billing"]}, namespace="billing")
    roles = [{each["metadata"]["name"] for each in objects if each["kind"] == "ClusterRole"} for objects in (one, other)]
    assert len(roles[0]) == 3 and not roles[0] & roles[1]


def test_the_definition_is_the_source_and_is_kept():
    given = chart.of(chart.render({"commonAnnotations": {"a": "b"}}), "CustomResourceDefinition")
    source = yaml.safe_load((chart.ROOT / "crds" / "streamprocessors.yaml").read_text(encoding="utf-8"))
    assert given["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep", "a": "b"}
    given["metadata"] = source["metadata"]
    assert given == source
    assert not [each for each in chart.render({"crds": {"install": False}}) if each["kind"] == "CustomResourceDefinition"]
    assert not (chart.CHART / "crds").exists(), "Helm never upgrades what is in crds/"


def test_two_replicas_and_none():
    deployment = chart.of(chart.render({"replicas": 2}), "Deployment")["spec"]
    assert deployment["replicas"] == 2
    spread = deployment["template"]["spec"]["topologySpreadConstraints"]
    assert spread == [{"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
                       "labelSelector": {"matchLabels": deployment["selector"]["matchLabels"]}}]
    assert chart.of(chart.render({"replicas": 0}), "Deployment")["spec"]["replicas"] == 0


def test_without_a_lease_the_old_operator_ends_first():
    objects = chart.render({"leaderElection": {"enabled": False}})
    assert chart.of(objects, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert not [each for each in objects if each["kind"] in ("Role", "RoleBinding")], "no right on leases"


def test_the_selector_is_part_of_the_pods_labels_whatever_is_added():
    deployment = chart.of(chart.render({"podLabels": {"app.kubernetes.io/name": "other", "x": "y"}, "commonLabels": {"team": "streams"}}), "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"]
    assert deployment["selector"]["matchLabels"].items() <= labels.items()
    assert labels["x"] == "y" and labels["team"] == "streams"


def test_monitoring():
    values = {"metrics": {"serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}, "interval": "15s"},
                          "prometheusRule": {"enabled": True, "labels": {"release": "prometheus"}, "runbookUrl": "https://wiki.example.com/run/"},
                          "dashboard": {"enabled": True, "annotations": {"grafana_folder": "Streams"}}}}
    objects = chart.render(values)
    monitor = chart.of(objects, "ServiceMonitor")
    service = chart.of(objects, "Service")
    assert monitor["metadata"]["labels"]["release"] == "prometheus" and monitor["spec"]["endpoints"] == [{"port": "http", "path": "/metrics", "interval": "15s"}]
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert service["spec"]["ports"][0]["name"] == "http"
    rules = chart.of(objects, "PrometheusRule")
    source = yaml.safe_load((chart.CHART / "files" / "alerts.yaml").read_text(encoding="utf-8"))
    assert [[each["alert"] for each in group["rules"]] for group in rules["spec"]["groups"]] == [[each["alert"] for each in group["rules"]] for group in source["groups"]]
    first = rules["spec"]["groups"][0]["rules"][0]
    assert first["annotations"]["runbook_url"] == f"https://wiki.example.com/run/{first['alert'].lower()}.md"
    assert first["expr"] == source["groups"][0]["rules"][0]["expr"]
    dashboard = chart.of(objects, "ConfigMap")
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1" and dashboard["metadata"]["annotations"] == {"grafana_folder": "Streams"}
    assert dashboard["data"]["millstream.json"].strip() == (chart.CHART / "files" / "dashboard.json").read_text(encoding="utf-8").strip()


def test_network_policy():
    policy = chart.of(chart.render(), "NetworkPolicy")["spec"]
    assert policy["policyTypes"] == ["Ingress"] and policy["ingress"] == [{"ports": [{"port": "http", "protocol": "TCP"}]}]
    closed = chart.of(chart.render({"networkPolicy": {"from": [{"namespaceSelector": {}}], "egress": {"enabled": True, "apiServerPorts": [16443]}}}), "NetworkPolicy")["spec"]
    assert closed["policyTypes"] == ["Ingress", "Egress"]
    assert [each["port"] for rule in closed["egress"] for each in rule["ports"]] == [53, 53, 16443, 7979]
    test_pod = chart.of(chart.render(), "Pod")["metadata"]["labels"]
    assert closed["ingress"][0]["from"][1]["podSelector"]["matchLabels"].items() <= test_pod.items(), "helm test gets through"


def test_the_test_asks_the_service():
    objects = chart.render({"metrics": {"service": {"port": 9000}}})
    assert chart.of(objects, "Pod")["spec"]["containers"][0]["args"] == ["--probe=http://millstream-operator-metrics.millstream-system.svc:9000/readyz"]
    assert chart.of(objects, "Service")["spec"]["ports"] == [{"name": "http", "port": 9000, "targetPort": "http", "protocol": "TCP"}]
