// Informer keeps a copy of the Frameworks of one namespace, as every controller written in Go does, and tells what
// it sees: one JSON object per line, until its standard input ends.
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

// line is one thing that the informer saw or did.
type line struct {
	Happened string   `json:"happened"`
	Name     string   `json:"name,omitempty"`
	Kind     string   `json:"kind,omitempty"`
	Version  string   `json:"version,omitempty"`
	State    string   `json:"state,omitempty"`
	Names    []string `json:"names,omitempty"`
	Query    string   `json:"query,omitempty"`
}

// teller writes whole lines, whoever calls.
type teller struct {
	mutex sync.Mutex
	lines *json.Encoder
}

func (t *teller) tell(what line) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if err := t.lines.Encode(what); err != nil {
		os.Exit(1) // nobody reads any more
	}
}

func (t *teller) tellOf(happened string, obj any) {
	if last, gone := obj.(cache.DeletedFinalStateUnknown); gone {
		obj = last.Obj
	}
	framework := obj.(*unstructured.Unstructured)
	state, _, _ := unstructured.NestedString(framework.Object, "status", "state")
	t.tell(line{
		Happened: happened,
		Name:     framework.GetName(),
		Kind:     framework.GetKind(),
		Version:  framework.GetResourceVersion(),
		State:    state,
	})
}

// told is a transport that tells of every request.
type told struct {
	teller *teller
	next   http.RoundTripper
}

func (t told) RoundTrip(request *http.Request) (*http.Response, error) {
	t.teller.tell(line{Happened: "request", Query: request.URL.RawQuery})
	return t.next.RoundTrip(request)
}

func main() {
	server := flag.String("server", "http://127.0.0.1:8080", "where the launcher listens")
	namespace := flag.String("namespace", "default", "whose Frameworks to follow")
	flag.Parse()
	if err := follow(*server, *namespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// informerOf is what a dynamic informer factory makes, without the typed clients that come along with one: those
// take a minute to compile.
func informerOf(client dynamic.Interface, resource dynamic.ResourceInterface) cache.SharedIndexInformer {
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

// follow tells what happens in the namespace until standard input ends.
func follow(server, namespace string) error {
	teller := &teller{lines: json.NewEncoder(os.Stdout)}
	client, err := dynamic.NewForConfig(&rest.Config{
		Host:          server,
		WrapTransport: func(next http.RoundTripper) http.RoundTripper { return told{teller, next} },
	})
	if err != nil {
		return err
	}
	informer := informerOf(client, client.Resource(frameworks).Namespace(namespace))
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { teller.tellOf("added", obj) },
		UpdateFunc: func(_, obj any) { teller.tellOf("updated", obj) },
		DeleteFunc: func(obj any) { teller.tellOf("deleted", obj) },
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
	teller.tell(line{Happened: "synced", Names: informer.GetStore().ListKeys()})
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
