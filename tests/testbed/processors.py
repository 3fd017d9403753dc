"""What the operator says of a processor: for the worlds of tests that run one, pretended pods or real ones."""


class Processors:
    """Of a world with `admin` (api.Api) and `wait(condition, what)`."""

    def processor(self, namespace, name):
        return self.admin.get("StreamProcessor", namespace, name)

    def condition(self, namespace, name, kind="Ready"):
        """(status, reason, message); (None, "", "") while there is none."""
        thing = self.processor(namespace, name)
        for each in (thing or {}).get("status", {}).get("conditions", []):
            if each["type"] == kind:
                return each["status"], each["reason"], each["message"]
        return None, "", ""

    def is_ready(self, namespace, name):
        thing = self.processor(namespace, name)
        return (thing is not None and thing.get("status", {}).get("observedGeneration") == thing["metadata"]["generation"]
                and self.condition(namespace, name)[0] == "True" and self.condition(namespace, name, "Reconciling")[0] is None)

    def wait_ready(self, namespace, name):
        """Until it is Ready at its newest generation, and nothing is under way."""
        self.wait(lambda: self.is_ready(namespace, name), f"{namespace}/{name} to be ready")

    def wait_reason(self, namespace, name, *reasons, kind="Ready"):
        """Until that condition has one of the reasons; returns its message."""
        self.wait(lambda: self.condition(namespace, name, kind)[1] in reasons, f"{namespace}/{name} to say {' or '.join(reasons)}")
        return self.condition(namespace, name, kind)[2]
