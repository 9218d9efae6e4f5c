// Reads a ServiceMonitor as JSON, into the types of which the Prometheus operator makes its CustomResourceDefinition.
// What they do not have is an error, and so is a value of another type.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
)

func main() {
	decoder := json.NewDecoder(os.Stdin)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&monitoring.ServiceMonitor{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
