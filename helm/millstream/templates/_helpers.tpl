{{/* The name of everything in the release's namespace: RELEASE-operator where the release is called after the chart. */}}
{{- define "millstream.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" }}
{{- else }}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- if contains $name .Release.Name }}
{{- printf "%s-operator" (.Release.Name | trunc 43 | trimSuffix "-") }}
{{- else }}
{{- printf "%s-%s-operator" (.Release.Name | trunc 30 | trimSuffix "-") ($name | trunc 12 | trimSuffix "-") }}
{{- end }}
{{- end }}
{{- end }}

{{/* The name of cluster-scoped objects: operators of single namespaces may be many, and their names must differ. */}}
{{- define "millstream.clusterName" -}}
{{- if .Values.watchNamespaces }}
{{- printf "%s-%s" .Release.Namespace (include "millstream.fullname" .) }}
{{- else }}
{{- include "millstream.fullname" . }}
{{- end }}
{{- end }}

{{- define "millstream.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "millstream.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name: which service account is it, when serviceAccount.create is false?" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{/* What selects the operator's pods. Processors' network policies know "millstream-operator". Never changes. */}}
{{- define "millstream.selectorLabels" -}}
app.kubernetes.io/name: millstream-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "millstream.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "millstream.selectorLabels" . }}
app.kubernetes.io/component: operator
app.kubernetes.io/part-of: millstream
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* annotations: of the release and of one object, as a part of its metadata: dict "root" . "own" MAP. Nothing when there are none. */}}
{{- define "millstream.annotations" -}}
{{- $all := merge (dict) (.own | default dict) (.root.Values.commonAnnotations | default dict) }}
{{- with $all }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end }}

{{/* An image: dict "root" . "image" VALUES. */}}
{{- define "millstream.image" -}}
{{- $registry := default .root.Values.imageRegistry .image.registry | trimSuffix "/" }}
{{- $name := .image.repository }}
{{- if $registry }}{{ $name = printf "%s/%s" $registry $name }}{{ end }}
{{- if .image.digest }}
{{- if .image.tag }}{{ $name = printf "%s:%s" $name .image.tag }}{{ end }}
{{- printf "%s@%s" $name .image.digest }}
{{- else }}
{{- printf "%s:%s" $name (default .root.Chart.AppVersion .image.tag) }}
{{- end }}
{{- end }}

{{/* The security context of the pod; on OpenShift user and group are the namespace's. */}}
{{- define "millstream.podSecurityContext" -}}
{{- if .Values.openshift }}
{{- omit .Values.podSecurityContext "runAsUser" "runAsGroup" "fsGroup" | toYaml }}
{{- else }}
{{- toYaml .Values.podSecurityContext }}
{{- end }}
{{- end }}

{{/* Values that contradict each other. */}}
{{- define "millstream.check" -}}
{{- if and (not .Values.leaderElection.enabled) (gt (int .Values.replicas) 1) }}
{{- fail (printf "replicas is %d and leaderElection.enabled is false: two operators would undo each other's work. Set leaderElection.enabled=true, or replicas=1." (int .Values.replicas)) }}
{{- end }}
{{- if and .Values.metrics.serviceMonitor.enabled (not .Values.metrics.service.enabled) }}
{{- fail "metrics.serviceMonitor.enabled needs metrics.service.enabled: a ServiceMonitor finds the operator through its Service." }}
{{- end }}
{{- if ne (len .Values.watchNamespaces) (len (uniq .Values.watchNamespaces)) }}
{{- fail (printf "watchNamespaces names a namespace twice: %s" (join ", " .Values.watchNamespaces)) }}
{{- end }}
{{- end }}
