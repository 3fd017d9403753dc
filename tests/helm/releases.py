"""What is installed in a cluster, taken out of it again."""

import json

import chart


def remove_millstream(cluster):
    for release in json.loads(cluster.helm("list", "--all-namespaces", "--all", "--output", "json")):
        cluster.helm("uninstall", release["name"], "--namespace", release["namespace"])
    if cluster.admin.get("CustomResourceDefinition", None, chart.CRD):
        # With it goes every StreamProcessor.
        cluster.admin.delete("CustomResourceDefinition", None, chart.CRD)
        cluster.wait(lambda: cluster.admin.get("CustomResourceDefinition", None, chart.CRD) is None, "the resource definition to go")
