"""A line in the log that says in which order the roles of a Framework are created."""

import logging

from launcher.store.port import Object

log = logging.getLogger(__name__)

#: How Arena's users write the sequence; its log line has the roles as they wrote them.
_ANNOTATION = "job-role-sequence"


def tell_sequence(obj: Object) -> None:
    """Log the sequence of that Framework, if it has one, in the words that Arena's users look for."""
    metadata, roles = obj["metadata"], obj["spec"].get("roleSequence")
    if not roles:
        return
    written = (metadata.get("annotations") or {}).get(_ANNOTATION)
    names = written.replace(",", " ") if written else " ".join(roles)
    log.info(
        "the Role Sequence of job %s is: [%s]",
        metadata["name"],
        names,
        extra={"job": f"{metadata['namespace']}.{metadata['name']}", "uid": metadata["uid"]},
    )
