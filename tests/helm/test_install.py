"""The life of a release on a real API server: whatever Helm is told, no StreamProcessor and no resource definition is lost."""

import shutil

import chart
import yaml


PROCESSOR = {"apiVersion": "millstream.dev/v1alpha1", "kind": "StreamProcessor", "metadata": {"name": "totals", "namespace": "shop"},
             "spec": {"kafka": {"bootstrapServers": "kafka:9092"}, "inputs": [{"topic": "orders"}], "stores": [{"name": "totals", "type": "KeyValue"}],
                      "container": {"image": "registry.example.com/totals:1"}}}


def install(cluster, *arguments, release=chart.RELEASE, namespace=chart.NAMESPACE, of=chart.CHART, values=None, check=True):
    return cluster.run("helm", "install", release, of, "--namespace", namespace, "--create-namespace", *chart.sets(values or {}), *arguments, check=check)


def upgrade(cluster, of=chart.CHART, values=None, release=chart.RELEASE, namespace=chart.NAMESPACE):
    return cluster.helm("upgrade", release, of, "--namespace", namespace, *chart.sets(values or {}))


def definition(cluster):
    return cluster.admin.get("CustomResourceDefinition", None, chart.CRD)


def make_processor(cluster):
    if not cluster.admin.get("Namespace", None, "shop"):
        cluster.namespace("shop")
    cluster.wait(lambda: cluster.admin.create(PROCESSOR), "the definition to be served")
    return cluster.admin.get("StreamProcessor", "shop", "totals")["metadata"]["uid"]


def still_there(cluster, uid):
    processor = cluster.admin.get("StreamProcessor", "shop", "totals")
    return processor is not None and processor["metadata"]["uid"] == uid and "deletionTimestamp" not in processor["metadata"]


def older_chart(folder):
    """As this chart was one version ago: another version, and a definition that lacks a field."""
    older = folder / "millstream"
    shutil.copytree(chart.CHART, older)
    about = older / "Chart.yaml"
    about.write_text(about.read_text(encoding="utf-8").replace("version: 0.1.0", "version: 0.0.9").replace("appVersion: 0.1.0", "appVersion: 0.0.9"), encoding="utf-8")
    file = older / "files" / "streamprocessors.yaml"
    crd = yaml.safe_load(file.read_text(encoding="utf-8"))
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    del schema["mergeBy"]
    file.write_text(yaml.safe_dump(crd, sort_keys=False), encoding="utf-8")
    return older


def fields_of(crd):
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]


def test_install_makes_everything(bare):
    values = {"replicas": 2, "metrics": {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}},
              "sidecar": {"podMonitors": {"enabled": True}}, "networkPolicy": {"egress": {"enabled": True}}}
    done = install(bare, values=values)
    assert "kubectl get sp" in done.stdout and "all namespaces" in done.stdout
    for each in chart.render(values):
        if each["kind"] == "Pod":
            continue  # only with `helm test`
        name, namespace = each["metadata"]["name"], each["metadata"].get("namespace")
        got = bare.kubectl("get", f"{each['kind']}.{each['apiVersion'].partition('/')[0]}" if "/" in each["apiVersion"] else each["kind"], name,
                           *(["--namespace", namespace] if namespace else []), "--output=name")
        assert got.strip(), f"{each['kind']} {name}"
    # The controllers of the API server make the pods: Pod Security accepts them.
    bare.kubectl("label", "namespace", chart.NAMESPACE, "pod-security.kubernetes.io/enforce=restricted", "--overwrite")
    bare.admin.call("DELETE", f"/api/v1/namespaces/{chart.NAMESPACE}/pods")
    bare.wait(lambda: len([pod for pod in bare.admin.list("Pod", chart.NAMESPACE) if "deletionTimestamp" not in pod["metadata"]]) == 2, "pods of the operator")


def test_what_is_installed_is_what_strict_validation_accepts(bare, tmp_path):
    """Unknown fields would be dropped in silence by helm."""
    file = tmp_path / "all.yaml"
    file.write_text(chart.text({"metrics": {"dashboard": {"enabled": True}}, "networkPolicy": {"egress": {"enabled": True}, "from": [{"podSelector": {}}]}, "replicas": 2,
                                "tolerations": [{"operator": "Exists"}], "imagePullSecrets": ["pull"], "priorityClassName": "system-cluster-critical"}), encoding="utf-8")
    if not bare.admin.get("Namespace", None, chart.NAMESPACE):
        bare.namespace(chart.NAMESPACE)
    bare.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", file)


def test_upgrade_from_the_chart_before(bare, tmp_path):
    install(bare, of=older_chart(tmp_path))
    assert "mergeBy" not in fields_of(definition(bare))
    uid = make_processor(bare)
    upgrade(bare)
    assert "mergeBy" in fields_of(definition(bare)), "the definition is upgraded with the release"
    assert bare.admin.get("Deployment", chart.NAMESPACE, chart.NAME)["metadata"]["labels"]["app.kubernetes.io/version"] == "0.1.0"
    assert still_there(bare, uid)
    bare.helm("rollback", chart.RELEASE, "1", "--namespace", chart.NAMESPACE)
    assert "mergeBy" not in fields_of(definition(bare)) and still_there(bare, uid)


def test_upgrade_that_no_longer_installs_the_definition_leaves_it(bare):
    install(bare)
    uid = make_processor(bare)
    upgrade(bare, values={"crds": {"install": False}})
    assert definition(bare) is not None and still_there(bare, uid)
    upgrade(bare, values={"crds": {"install": True}})
    assert definition(bare)["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep" and still_there(bare, uid)


def test_uninstall_and_install_again(bare):
    install(bare)
    uid = make_processor(bare)
    said = bare.helm("uninstall", chart.RELEASE, "--namespace", chart.NAMESPACE)
    assert chart.CRD in said, "helm says what it keeps"
    assert definition(bare) is not None and still_there(bare, uid)
    for kind, namespace in (("Deployment", chart.NAMESPACE), ("ClusterRole", None), ("ClusterRoleBinding", None), ("Role", chart.NAMESPACE), ("NetworkPolicy", chart.NAMESPACE)):
        assert not [each for each in bare.admin.list(kind, namespace) if each["metadata"]["name"].startswith(chart.NAME)], f"a {kind} is left"
    install(bare)
    assert still_there(bare, uid)


def test_another_release_says_whose_the_definition_is(bare):
    install(bare)
    uid = make_processor(bare)
    bare.helm("uninstall", chart.RELEASE, "--namespace", chart.NAMESPACE)
    refused = install(bare, release="other", check=False)
    assert refused.returncode != 0 and chart.CRD in refused.stderr and 'must equal "other"' in refused.stderr
    install(bare, "--take-ownership", release="another")
    assert still_there(bare, uid)


def test_operators_of_two_namespaces_in_one_cluster(bare):
    for namespace in ("shop", "billing"):
        if not bare.admin.get("Namespace", None, namespace):
            bare.namespace(namespace)
    install(bare, namespace="shop", values={"watchNamespaces": ["shop"]})
    install(bare, namespace="billing", values={"watchNamespaces": ["billing"], "crds": {"install": False}})
    uid = make_processor(bare)
    bare.helm("uninstall", chart.RELEASE, "--namespace", "billing")
    assert still_there(bare, uid) and bare.admin.get("Role", "shop", "shop-millstream-operator")
    bare.helm("uninstall", chart.RELEASE, "--namespace", "shop")
    assert definition(bare) is not None and still_there(bare, uid)
