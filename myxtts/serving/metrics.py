"""What a server counts, in Prometheus' text format."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

FIRST_AUDIO_SECONDS = (0.05, 0.1, 0.15, 0.25, 0.5, 1, 2, 4, 8, 16)
TOTAL_SECONDS = (0.1, 0.25, 0.5, 1, 2, 4, 8, 16, 60, 300)


class Metrics:
    """The metrics of one application."""

    def __init__(self):
        self._registry = CollectorRegistry()
        self._requests = Counter(
            "tts_requests", "Requests by interface and status.", ("interface", "status"), registry=self._registry
        )
        self.first_audio_seconds = Histogram(
            "tts_first_audio_seconds",
            "From a text to its first audio.",
            buckets=FIRST_AUDIO_SECONDS,
            registry=self._registry,
        )
        self.total_seconds = Histogram(
            "tts_speech_seconds", "From a text to its last audio.", buckets=TOTAL_SECONDS, registry=self._registry
        )
        self.audio_seconds = Counter("tts_audio_seconds", "Seconds of audio made.", registry=self._registry)
        self.synthesis_seconds = Counter(
            "tts_synthesis_seconds",
            "Seconds spent on it; divided by tts_audio_seconds_total: the real-time factor.",
            registry=self._registry,
        )
        self.characters = Counter("tts_characters", "Characters spoken.", registry=self._registry)
        self.refused = Counter("tts_refused", "Texts refused because the server was busy.", registry=self._registry)

    def watch(self, name: str, description: str, value: Callable[[], float]) -> None:
        """A gauge that is read when the metrics are."""
        Gauge(name, description, registry=self._registry).set_function(value)

    def count_request(self, interface: str, status: int | str) -> None:
        """Count an answered request."""
        self._requests.labels(interface, str(status)).inc()

    def to_text(self) -> bytes:
        """All metrics."""
        return generate_latest(self._registry)
