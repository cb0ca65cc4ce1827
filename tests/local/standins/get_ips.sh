# Sets worker_hosts and ps_hosts: the addresses of all tasks of both roles, once every one of them is known.
# With worker_port and ps_port set, each address has its port behind it.
eval "$(python3 - <<'PROGRAM'
import json, os, ssl, sys, time, urllib.parse, urllib.request

with open("/launcher_url") as file:
    url = file.read().strip()
account = "/var/run/secrets/kubernetes.io/serviceaccount"  # where there is a cluster
headers, context = {}, None
if os.path.exists(account):
    with open(account + "/token") as file:
        headers["Authorization"] = "Bearer " + file.read()
    context = ssl.create_default_context(cafile=account + "/ca.crt")
selector = urllib.parse.quote("FC_FRAMEWORK_NAME=" + os.environ["FC_FRAMEWORK_NAME"])
pods = url + "/api/v1/namespaces/" + os.environ["FC_FRAMEWORK_NAMESPACE"] + "/pods?labelSelector=" + selector
wanted = {role: int(os.environ[role + "_tasknum"]) for role in ("worker", "ps")}
ends = time.monotonic() + 60
while time.monotonic() < ends:
    question = urllib.request.Request(pods, headers=headers)
    with urllib.request.urlopen(question, timeout=10, context=context) as answer:
        items = json.load(answer)["items"]
    found = {role: {} for role in wanted}
    for pod in items:
        marks = {**pod["metadata"].get("labels", {}), **pod["metadata"].get("annotations", {})}
        address = pod.get("status", {}).get("hostIP")
        if address and marks.get("FC_TASKROLE_NAME") in found:
            found[marks["FC_TASKROLE_NAME"]][int(marks["FC_TASK_INDEX"])] = address
    if all(len(found[role]) == number for role, number in wanted.items()):
        for role, addresses in found.items():
            port = os.environ.get(role + "_port")
            hosts = [address + (":" + port if port else "") for _, address in sorted(addresses.items())]
            print("export " + role + "_hosts=" + ",".join(hosts))
        sys.exit()
    time.sleep(0.1)
sys.exit("the addresses of " + str(wanted) + " are not known after a minute: " + str(found))
PROGRAM
)"
