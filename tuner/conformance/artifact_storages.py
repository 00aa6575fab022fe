"""The conformance suite of artifact storages: what every
:class:`tuner.keeping.artifact_storage.ArtifactStorage` must do."""

from __future__ import annotations

import os
import threading
import time
from abc import abstractmethod

import pytest

from tuner.errors import HvxtuneError, InternalError, StoreError
from tuner.identity import digest_of_bytes
from tuner.keeping import artifact_storage
from tuner.keeping.artifact_storage import ArtifactStorage, LostFileError

KEY = "ab/" + "ab" * 32 + "-0123456789abcdef.zip"
DATA = bytes(range(256)) * 40
_WRITERS = 6


class ArtifactStorageConformance:
    """Inherit it, and say how to open a storage and how to harm it."""

    @abstractmethod
    @pytest.fixture
    def storage(self) -> ArtifactStorage:
        """A storage without a file."""

    @abstractmethod
    def again(self, storage: ArtifactStorage) -> ArtifactStorage:
        """Another handle of the same place, as another process has it."""

    @abstractmethod
    def put_behind(self, storage: ArtifactStorage, key: str, data: bytes) -> None:
        """Replaces the bytes of a file, past :meth:`ArtifactStorage.write`."""

    def test_what_was_written_is_read_elsewhere(self, storage: ArtifactStorage) -> None:
        storage.write(KEY, DATA)
        other = self.again(storage)
        assert other.read(KEY, digest_of_bytes(DATA)) == DATA
        assert other.size(KEY) == storage.size(KEY) == len(DATA)
        assert KEY in storage.path_of(KEY)
        [before] = storage.files()
        storage.write(KEY, DATA)
        storage.prove_writable()
        storage.require_present()
        assert list(storage.files()) == [before], "that changed something"
        storage.write("empty/file", b"")
        assert storage.size("empty/file") == 0
        assert other.read("empty/file", digest_of_bytes(b"")) == b""
        other.close()
        other.close()

    def test_a_missing_file_is_named(self, storage: ArtifactStorage) -> None:
        storage.write("other/file", DATA)
        assert storage.size(KEY) is None
        with pytest.raises(LostFileError, match="is gone") as refused:
            storage.read(KEY, digest_of_bytes(DATA))
        assert_one_line(refused.value, KEY)

    @pytest.mark.parametrize("harm", ["a byte", "cut", "longer", "empty"])
    def test_damaged_bytes_are_named_and_never_handed_out(
        self, storage: ArtifactStorage, harm: str
    ) -> None:
        storage.write(KEY, DATA)
        changed = {
            "a byte": DATA[:99] + bytes([DATA[99] ^ 1]) + DATA[100:],
            "cut": DATA[:-1],
            "longer": DATA + b"x",
            "empty": b"",
        }
        self.put_behind(storage, KEY, changed[harm])
        with pytest.raises(LostFileError, match="damaged") as refused:
            storage.read(KEY, digest_of_bytes(DATA))
        assert_one_line(refused.value, KEY)
        storage.write(KEY, DATA)  # mends it
        assert storage.read(KEY, digest_of_bytes(DATA)) == DATA

    def test_readers_see_a_file_whole_or_not_at_all(self, storage: ArtifactStorage) -> None:
        """While it is written, mended and deleted, by others."""
        data = os.urandom(200_000)
        digest = digest_of_bytes(data)
        storage.write("other/file", b"")
        done = threading.Event()
        broken: list[BaseException] = []

        def read() -> None:
            reader = self.again(storage)
            while not done.is_set():
                try:
                    reader.read(KEY, digest)
                except LostFileError as error:
                    if "is gone" not in str(error):
                        broken.append(error)
                except BaseException as error:  # noqa: BLE001 - shown below, in the test's thread
                    broken.append(error)

        threads = [threading.Thread(target=read) for _ in range(2)]
        for thread in threads:
            thread.start()
        for _ in range(8):
            storage.write(KEY, data)
            storage.delete(KEY)
        done.set()
        for thread in threads:
            thread.join()
        assert broken == []

    def test_several_may_write_one_file_at_once(self, storage: ArtifactStorage) -> None:
        together = threading.Barrier(_WRITERS)
        failed: list[BaseException] = []

        def write() -> None:
            writer = self.again(storage)
            together.wait()
            try:
                writer.write(KEY, DATA)
            except BaseException as error:  # noqa: BLE001 - shown below, in the test's thread
                failed.append(error)

        threads = [threading.Thread(target=write) for _ in range(_WRITERS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == []
        assert [one.key for one in storage.files()] == [KEY]
        assert storage.read(KEY, digest_of_bytes(DATA)) == DATA

    def test_all_files_are_listed_with_sizes_and_times(self, storage: ArtifactStorage) -> None:
        assert list(storage.files()) == []
        wanted = {f"{n:02x}/{n:064x}-{n:016x}.zip": n for n in range(30)}
        for key, size in wanted.items():
            storage.write(key, bytes(size))
        found = list(self.again(storage).files())
        assert {one.key: one.bytes for one in found} == wanted
        assert len(found) == len(wanted)
        assert all(abs(one.modified_at - time.time()) < 3600.0 for one in found)

    def test_a_deleted_file_is_gone_and_others_stay(self, storage: ArtifactStorage) -> None:
        storage.write(KEY, DATA)
        storage.write("other/file", b"x")
        storage.delete(KEY)
        storage.delete(KEY)
        assert storage.size(KEY) is None
        assert [one.key for one in storage.files()] == ["other/file"]

    def test_a_file_that_is_too_large_is_refused(
        self, storage: ArtifactStorage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(artifact_storage, "MOST_BYTES", len(DATA))
        storage.write(KEY, DATA)
        with pytest.raises(StoreError, match=str(len(DATA) + 1)) as refused:
            storage.write("other/file", DATA + b"x")
        assert_one_line(refused.value, "other/file")
        assert storage.size("other/file") is None

    @pytest.mark.parametrize("key", ["", "/etc/x", "../x", "a/../x", "a//b", "A", "a b", "x" * 201])
    def test_a_key_leads_nowhere_else(self, storage: ArtifactStorage, key: str) -> None:
        for use in (lambda: storage.write(key, b""), lambda: storage.read(key, "0" * 64)):
            with pytest.raises(InternalError, match="not the key"):
                use()
        with pytest.raises(InternalError, match="not the key"):
            storage.delete(key)


def assert_one_line(error: HvxtuneError, *parts: str) -> None:
    """The error is one line with ``parts`` and a next step."""
    line = str(error)
    assert "\n" not in line
    assert [part for part in parts if part not in line] == []
    assert error.next_step
