{{- define "unstarve.labels" -}}
app.kubernetes.io/name: unstarve
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "unstarve.metadata" -}}
name: {{ .root.Release.Name }}-{{ .component }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- include "unstarve.labels" . | nindent 2 }}
  app.kubernetes.io/version: {{ .root.Values.image.tag | default .root.Chart.AppVersion | quote }}
{{- end }}

{{- define "unstarve.watch-toml" -}}
version = 1
{{- if .Values.metrics.enabled }}

[listen]
address = "0.0.0.0:{{ .Values.metrics.port }}"
allow-remote = true
{{- end }}
{{- with .Values.watch.config }}

{{ . }}
{{- end }}
{{- end }}

{{- /* What the pods of both have in common. */ -}}
{{- define "unstarve.pod" -}}
# All tasks of the node are what it watches.
hostPID: true
{{- if .Values.hostNetwork }}
hostNetwork: true
dnsPolicy: ClusterFirstWithHostNet
{{- end }}
# It asks no API server.
automountServiceAccountToken: false
terminationGracePeriodSeconds: 30
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
nodeSelector:
  kubernetes.io/os: linux
  kubernetes.io/arch: amd64
  {{- with .Values.nodeSelector }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "unstarve.image" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- define "unstarve.security" -}}
privileged: false
# The capabilities are the container's from its start; nothing adds to them.
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsUser: 0
runAsGroup: 0
capabilities:
  drop: ["ALL"]
  add: {{ .capabilities | toJson }}
{{- if and .root.Values.appArmor (semverCompare ">=1.30.0-0" .root.Capabilities.KubeVersion.Version) }}
appArmorProfile:
  type: {{ .root.Values.appArmor }}
{{- end }}
{{- with .root.Values.seLinuxOptions }}
seLinuxOptions:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* Annotations of a pod whose container is .component. */ -}}
{{- define "unstarve.annotations" -}}
# A file that is mounted alone does not follow its map: a change makes new pods.
checksum/config: {{ .config | sha256sum }}
{{- if and .root.Values.appArmor (semverCompare "<1.30.0-0" .root.Capabilities.KubeVersion.Version) }}
container.apparmor.security.beta.kubernetes.io/{{ .component }}: {{ .root.Values.appArmor | lower }}
{{- if eq .component "guard" }}
container.apparmor.security.beta.kubernetes.io/undo: {{ .root.Values.appArmor | lower }}
{{- end }}
{{- end }}
{{- with .root.Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The node's tracefs and groups, and where both keep their state. */ -}}
{{- define "unstarve.mounts" -}}
- name: tracing
  mountPath: /sys/kernel/tracing
- name: state
  mountPath: /run/unstarve
{{- end }}

{{- define "unstarve.volumes" -}}
- name: tracing
  hostPath:
    path: /sys/kernel/tracing
    type: Directory
- name: cgroup
  hostPath:
    path: /sys/fs/cgroup
    type: Directory
- name: state
  hostPath:
    path: {{ .root.Values.paths.state }}
    type: DirectoryOrCreate
- name: config
  configMap:
    name: {{ .root.Release.Name }}-{{ .component }}
    defaultMode: 0644
{{- end }}
