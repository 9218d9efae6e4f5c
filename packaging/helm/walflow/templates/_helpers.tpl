{{- define "walflow.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "walflow.selector" -}}
app.kubernetes.io/name: walflow
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "walflow.labels" -}}
{{ include "walflow.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}
