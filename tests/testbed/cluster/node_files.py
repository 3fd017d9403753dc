"""What the programs of a node read: configuration of containerd, its network plugins, kubelet and kube-proxy."""

import json
import pathlib

import pki
from control_plane import DOMAIN

KUBE_PROXY_PORTS = (10256, 10249)


def containerd(folder):
    """restrict_oom_score_adj: without CAP_SYS_RESOURCE runc may not lower it and ends with "can't get final child's PID from pipe".
    opt: a folder that it makes at its start, by default on the machine."""
    return f"""version = 2
root = "{folder}/containerd"
state = "/run/containerd/state"
oom_score = 0
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true
  disable_apparmor = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    default_runtime_name = "runc"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
"""


def pod_network(network):
    """A bridge, addresses from one range. No masquerading: nothing leaves the node but to this machine, which has a route back."""
    ranges = {"type": "host-local", "ranges": [[{"subnet": str(network.pods)}]], "routes": [{"dst": "0.0.0.0/0"}]}
    return {"cniVersion": "0.4.0", "name": "pods", "plugins": [
        {"type": "bridge", "bridge": "cni0", "isGateway": True, "hairpinMode": True, "ipam": ranges}, {"type": "portmap", "capabilities": {"portMappings": True}}]}


def kubelet(folder, network, authority, serving, more):
    """Image collection is off: no registry could give an image back. From Kubernetes 1.35 a machine with version 1 control groups must be asked for."""
    return {"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{network.name}",
            "failSwapOn": False, "failCgroupV1": False, "oomScoreAdj": 0, "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            "clusterDNS": [network.gateway], "clusterDomain": DOMAIN, "resolvConf": f"{folder}/resolv.conf",
            "tlsCertFile": str(serving[0]), "tlsPrivateKeyFile": str(serving[1]),
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}, "x509": {"clientCAFile": str(authority.ca)}},
            "authorization": {"mode": "Webhook"},
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "100Mi", "imagefs.available": "100Mi", "nodefs.inodesFree": "1%"},
            "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99, "volumePluginDir": f"{folder}/volume-plugins", **more}


def kube_proxy(network, kubeconfig, name):
    """The conntrack limits are those of the machine, which a namespace may not set."""
    return {"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables", "clientConnection": {"kubeconfig": str(kubeconfig)},
            "clusterCIDR": str(network.pods), "hostnameOverride": name, "oomScoreAdj": 0,
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"}, "iptables": {"minSyncPeriod": "100ms"},
            "bindAddress": "0.0.0.0", "healthzBindAddress": f"127.0.0.1:{KUBE_PROXY_PORTS[0]}", "metricsBindAddress": f"127.0.0.1:{KUBE_PROXY_PORTS[1]}"}


def write(folder, network, cluster, name, kubelet_more):
    """All of them into `folder`; {program: its kubeconfig}."""
    folder, authority = pathlib.Path(folder), cluster.authority
    (folder / "cni").mkdir(exist_ok=True)
    (folder / "resolv.conf").touch()
    (folder / "containerd.toml").write_text(containerd(folder), encoding="ascii")
    (folder / "cni" / "10-pods.conflist").write_text(json.dumps(pod_network(network)), encoding="ascii")
    serving = authority.issue("kubelet-server", f"/CN={name}", client=False, server=[f"DNS:{name}", "IP:127.0.0.1", f"IP:{network.node}"])
    users = {"kubelet": f"/O=system:nodes/CN=system:node:{name}", "kube-proxy": "/CN=system:kube-proxy", "dns": "/CN=cluster-dns", "volumes": "/O=system:masters/CN=volumes"}
    found = {program: pki.kubeconfig(folder / f"{program}.kubeconfig", cluster.url, authority.ca, certificate=authority.issue(program, subject))
             for program, subject in users.items()}
    (folder / "kubelet.json").write_text(json.dumps(kubelet(folder, network, authority, serving, kubelet_more), indent=1), encoding="ascii")
    (folder / "kube-proxy.json").write_text(json.dumps(kube_proxy(network, found["kube-proxy"], name), indent=1), encoding="ascii")
    return found
