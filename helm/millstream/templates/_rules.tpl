{{/*
What the operator may do, in the namespaces it watches. Least privilege: no wildcard, nothing on Secrets, nothing on nodes, roles or
webhooks. Creating by server-side apply needs "patch" and "create". tests/helm proves both ways.
*/}}
{{- define "millstream.rules" -}}
# What it works for. "patch": its finalizer, on those whose internal topics are to be deleted.
- apiGroups: [millstream.dev]
  resources: [streamprocessors]
  verbs: [get, list, watch, patch]
# Conditions and numbers.
- apiGroups: [millstream.dev]
  resources: [streamprocessors/status]
  verbs: [update, patch]
# Owner references that block deletion (blockOwnerDeletion) ask for this where OwnerReferencesPermissionEnforcement is on, as on OpenShift.
- apiGroups: [millstream.dev]
  resources: [streamprocessors/finalizers]
  verbs: [update]
# The pods of a processor. "delete" leaves them running (orphan): what cannot be changed in a StatefulSet is changed by a new one.
- apiGroups: [apps]
  resources: [statefulsets]
  verbs: [get, list, watch, create, patch, delete]
# Topics are made, checked and deleted by Jobs in the processor's namespace, with the processor's own credentials.
- apiGroups: [batch]
  resources: [jobs]
  verbs: [get, list, watch, create, patch, delete]
# The manifest that a sidecar reads.
- apiGroups: [""]
  resources: [configmaps]
  verbs: [get, list, watch, create, patch, delete]
# How sidecars find each other.
- apiGroups: [""]
  resources: [services]
  verbs: [get, list, watch, create, patch, delete]
# A service account without a token for each processor. The operator hands out no rights.
- apiGroups: [""]
  resources: [serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
# At most one pod of a processor is evicted at a time.
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# One for each processor where they are asked for; and those that are wanted no longer are deleted.
- apiGroups: [networking.k8s.io]
  resources: [networkpolicies]
  verbs: [get, list, watch, create, patch, delete]
# Why a pod does not start; orders to its sidecar ("patch" of an annotation); pods that never became ready are deleted.
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch, delete]
# Rolling updates keep to disruption budgets.
- apiGroups: [""]
  resources: [pods/eviction]
  verbs: [create]
# Volumes that grow. "delete": a claim whose volume is lost (phase Lost); state comes back from the changelog.
- apiGroups: [""]
  resources: [persistentvolumeclaims]
  verbs: [get, list, watch, patch, delete]
# What kubelets say about pods that wait: a Secret that is missing is seen there, without a right to look at Secrets.
- apiGroups: [""]
  resources: [events]
  verbs: [get, list]
# What happened, said once.
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- if .Values.sidecar.podMonitors.enabled }}
# One for each processor (sidecar.podMonitors).
- apiGroups: [monitoring.coreos.com]
  resources: [podmonitors]
  verbs: [get, list, watch, create, patch, delete]
{{- end }}
{{- end }}
