"""What the operator and people may do, and what they may not, asked of a real API server with RBAC."""

import chart
import pytest
from releases import remove_millstream

# (verb, resource.group, subresource) in a namespace it watches.
NEEDED = [
    *[(verb, "streamprocessors.millstream.dev", None) for verb in ("get", "list", "watch", "patch")],
    ("patch", "streamprocessors.millstream.dev", "status"), ("update", "streamprocessors.millstream.dev", "status"),
    ("update", "streamprocessors.millstream.dev", "finalizers"),
    *[(verb, resource, None) for verb in ("get", "list", "watch", "create", "patch", "delete")
      for resource in ("statefulsets.apps", "jobs.batch", "configmaps", "services", "serviceaccounts", "poddisruptionbudgets.policy", "networkpolicies.networking.k8s.io")],
    *[(verb, "pods", None) for verb in ("get", "list", "watch", "patch", "delete")], ("create", "pods", "eviction"),
    *[(verb, "persistentvolumeclaims", None) for verb in ("get", "list", "watch", "patch", "delete")],
    ("list", "events", None), ("create", "events.events.k8s.io", None),
]
FORBIDDEN = [
    *[(verb, "secrets", None) for verb in ("get", "list", "watch", "create", "update", "patch", "delete")],
    ("create", "pods", None), ("create", "pods", "exec"), ("create", "pods", "attach"), ("create", "pods", "portforward"), ("get", "pods", "log"), ("get", "pods", "proxy"),
    ("create", "serviceaccounts", "token"), ("create", "persistentvolumeclaims", None), ("create", "deployments.apps", None), ("create", "daemonsets.apps", None),
    ("create", "streamprocessors.millstream.dev", None), ("delete", "streamprocessors.millstream.dev", None), ("update", "streamprocessors.millstream.dev", None),
    *[(verb, resource, None) for verb in ("create", "patch", "bind", "escalate") for resource in ("roles.rbac.authorization.k8s.io", "clusterroles.rbac.authorization.k8s.io")],
    ("create", "rolebindings.rbac.authorization.k8s.io", None), ("create", "clusterrolebindings.rbac.authorization.k8s.io", None),
    ("impersonate", "users", None), ("impersonate", "serviceaccounts", None),
    ("get", "nodes", None), ("get", "nodes", "proxy"), ("list", "namespaces", None), ("delete", "namespaces", None),
    ("get", "customresourcedefinitions.apiextensions.k8s.io", None), ("create", "validatingwebhookconfigurations.admissionregistration.k8s.io", None),
    ("delete", "events", None), ("deletecollection", "pods", None), ("*", "*", None),
]


def may(cluster, user, verb, resource, subresource, namespace, name=None, groups=()):
    plural, _, group = resource.partition(".")
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
              "spec": {"user": user, "groups": ["system:authenticated", *groups],
                       "resourceAttributes": {"verb": verb, "group": "*" if resource == "*" else group, "resource": plural, "subresource": subresource or "",
                                              "namespace": namespace or "", **({"name": name} if name else {})}}}
    return cluster.admin.call("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)["status"].get("allowed", False)


def operator_of(cluster, namespace, name=chart.NAME):
    user = f"system:serviceaccount:{namespace}:{name}"

    def asked(verb, resource, subresource, where, **options):
        return may(cluster, user, verb, resource, subresource, where, groups=("system:serviceaccounts", f"system:serviceaccounts:{namespace}"), **options)
    return asked


def install(cluster, namespace, values=None, release=chart.RELEASE):
    cluster.helm("install", release, chart.CHART, "--namespace", namespace, "--create-namespace", *chart.sets(values or {}))


def test_cluster_wide(bare):
    install(bare, "rights-all")
    asked = operator_of(bare, "rights-all")
    assert [each for each in NEEDED if not asked(*each, "default")] == []
    assert [each for each in FORBIDDEN if asked(*each, "default")] == []
    assert [each for each in FORBIDDEN if asked(*each, "rights-all")] == [], "nor in its own namespace"
    assert [each for each in FORBIDDEN if asked(*each, None)] == []
    # Its own lease, and no other.
    for verb in ("get", "update"):
        assert asked(verb, "leases.coordination.k8s.io", None, "rights-all", name=chart.NAME)
        assert not asked(verb, "leases.coordination.k8s.io", None, "rights-all", name="kube-scheduler")
        assert not asked(verb, "leases.coordination.k8s.io", None, "kube-system", name=chart.NAME)
    assert asked("create", "leases.coordination.k8s.io", None, "rights-all")
    assert not asked("create", "leases.coordination.k8s.io", None, "kube-system")
    assert not asked("list", "podmonitors.monitoring.coreos.com", None, "default"), "only where they are asked for"


def test_the_real_kubectl_says_the_same(bare):
    install(bare, "rights-kubectl")
    for namespace in ("shop-a", "rights-kubectl"):
        if not bare.admin.get("Namespace", None, namespace):
            bare.namespace(namespace)
    config = bare.account_kubeconfig("rights-kubectl", chart.NAME)
    assert bare.run("kubectl", "auth", "can-i", "create", "statefulsets.apps", "-n", "shop-a", kubeconfig=config).stdout.strip() == "yes"
    assert bare.run("kubectl", "auth", "can-i", "get", "secrets", "-n", "shop-a", kubeconfig=config, check=False).stdout.strip() == "no"
    assert bare.run("kubectl", "auth", "can-i", "*", "*", "--all-namespaces", kubeconfig=config, check=False).stdout.strip() == "no"


def test_namespaces_only(bare):
    for namespace in ("watched", "unwatched"):
        bare.namespace(namespace)
    install(bare, "rights-some", {"watchNamespaces": ["watched"], "sidecar": {"podMonitors": {"enabled": True}}})
    asked = operator_of(bare, "rights-some")
    assert [each for each in NEEDED if not asked(*each, "watched")] == []
    assert [each for each in NEEDED if asked(*each, "unwatched")] == []
    assert [each for each in NEEDED if asked(*each, None)] == [], "nothing in all namespaces at once"
    assert [each for each in FORBIDDEN if asked(*each, "watched")] == []
    assert asked("create", "podmonitors.monitoring.coreos.com", None, "watched")
    assert not asked("create", "podmonitors.monitoring.coreos.com", None, "unwatched")


ROLES = {  # role of a person -> what it may, what it may not
    "view": ([("get", "streamprocessors.millstream.dev", None), ("list", "streamprocessors.millstream.dev", None), ("get", "streamprocessors.millstream.dev", "scale")],
             [("create", "streamprocessors.millstream.dev", None), ("patch", "streamprocessors.millstream.dev", "scale"), ("get", "pods", "proxy")]),
    "edit": ([("create", "streamprocessors.millstream.dev", None), ("patch", "streamprocessors.millstream.dev", None), ("delete", "streamprocessors.millstream.dev", None),
              ("patch", "streamprocessors.millstream.dev", "scale"), ("list", "streamprocessors.millstream.dev", None)],
             [("patch", "streamprocessors.millstream.dev", "status"), ("update", "streamprocessors.millstream.dev", "finalizers")]),
    "admin": ([("create", "streamprocessors.millstream.dev", None), ("update", "streamprocessors.millstream.dev", "scale")],
              [("patch", "streamprocessors.millstream.dev", "status")]),
}


@pytest.fixture(scope="module")
def people(cluster):
    """A namespace in which "ROLE-person" has ROLE, with Millstream installed."""
    remove_millstream(cluster)
    install(cluster, "rights-people")
    cluster.namespace("people")
    for role in ROLES:
        cluster.kubectl("create", "rolebinding", f"{role}-person", f"--clusterrole={role}", f"--user={role}-person", "-n", "people")
    cluster.kubectl("create", "rolebinding", "kubectl-person", "--clusterrole=millstream-operator-kubectl", "--user=kubectl-person", "-n", "people")
    # The standard roles are put together by a controller.
    cluster.wait(lambda: may(cluster, "admin-person", "create", "streamprocessors.millstream.dev", None, "people"), "roles to be aggregated")
    yield cluster
    remove_millstream(cluster)


@pytest.mark.parametrize("role", ROLES)
def test_people(people, role):
    granted, refused = ROLES[role]
    people.wait(lambda: all(may(people, f"{role}-person", *each, "people") for each in granted), f"{role} to have its rights")
    assert [each for each in refused if may(people, f"{role}-person", *each, "people")] == []
    assert [each for each in granted if may(people, f"{role}-person", *each, "default")] == [], "nothing in another namespace"


def test_people_who_look_into_pods(people):
    granted = [("get", "pods", "proxy"), ("list", "pods", None), ("patch", "streamprocessors.millstream.dev", None), ("create", "jobs.batch", None), ("get", "pods", "log"),
               ("list", "events.events.k8s.io", None)]
    assert [each for each in granted if not may(people, "kubectl-person", *each, "people")] == []
    assert [each for each in (("get", "secrets", None), ("create", "pods", "proxy"), ("create", "pods", "exec"), ("delete", "streamprocessors.millstream.dev", None))
            if may(people, "kubectl-person", *each, "people")] == []
