// Informer caches the Frameworks of one namespace, as every controller written in Go does, and prints its events and
// requests, one JSON object per line, until its standard input is closed.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

var frameworks = schema.GroupVersionResource{
	Group: "launcher.microsoft.com", Version: "v1", Resource: "frameworks",
}

// event is a change of a Framework, the end of the initial sync, or a request.
type event struct {
	Type    string   `json:"type"`
	Name    string   `json:"name,omitempty"`
	Kind    string   `json:"kind,omitempty"`
	Version string   `json:"version,omitempty"`
	State   string   `json:"state,omitempty"`
	Names   []string `json:"names,omitempty"`
	Query   string   `json:"query,omitempty"`
}

// eventWriter prints events; it is safe for concurrent use.
type eventWriter struct {
	mutex sync.Mutex
	lines *json.Encoder
}

func (w *eventWriter) write(e event) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if err := w.lines.Encode(e); err != nil {
		os.Exit(1) // standard output is closed
	}
}

func (w *eventWriter) writeChange(changeType string, obj any) {
	if tombstone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = tombstone.Obj
	}
	framework := obj.(*unstructured.Unstructured)
	state, _, _ := unstructured.NestedString(framework.Object, "status", "state")
	w.write(event{
		Type:    changeType,
		Name:    framework.GetName(),
		Kind:    framework.GetKind(),
		Version: framework.GetResourceVersion(),
		State:   state,
	})
}

// loggingTransport prints every request.
type loggingTransport struct {
	writer *eventWriter
	next   http.RoundTripper
}

func (t loggingTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	t.writer.write(event{Type: "request", Query: request.URL.RawQuery})
	return t.next.RoundTrip(request)
}

func main() {
	server := flag.String("server", "http://127.0.0.1:8080", "the URL of the launcher")
	namespace := flag.String("namespace", "default", "the namespace of the Frameworks")
	flag.Parse()
	if err := run(*server, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// newInformer returns the informer of a dynamic informer factory, without the typed clients that the factory imports:
// those take a minute to compile.
func newInformer(client dynamic.Interface, resource dynamic.ResourceInterface) cache.SharedIndexInformer {
	calls := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return resource.List(ctx, options)
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return resource.Watch(ctx, options)
		},
	}
	return cache.NewSharedIndexInformer(
		cache.ToListWatcherWithWatchListSemantics(calls, client), &unstructured.Unstructured{}, 0, cache.Indexers{},
	)
}

// run prints the events of the namespace until standard input is closed.
func run(server, namespace string) error {
	writer := &eventWriter{lines: json.NewEncoder(os.Stdout)}
	client, err := dynamic.NewForConfig(&rest.Config{
		Host:          server,
		WrapTransport: func(next http.RoundTripper) http.RoundTripper { return loggingTransport{writer, next} },
	})
	if err != nil {
		return err
	}
	informer := newInformer(client, client.Resource(frameworks).Namespace(namespace))
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { writer.writeChange("added", obj) },
		UpdateFunc: func(_, obj any) { writer.writeChange("updated", obj) },
		DeleteFunc: func(obj any) { writer.writeChange("deleted", obj) },
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Minute)
	defer stop()
	go informer.RunWithContext(ctx)
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return fmt.Errorf("not synced: %w", ctx.Err())
	}
	writer.write(event{Type: "synced", Names: informer.GetStore().ListKeys()})
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
