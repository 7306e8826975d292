import pytest
import toy_host


@pytest.fixture
def run_on(tmp_path):
    """``toy_host.run_on``, in the test's folder; its journals are closed at the end."""
    runs = []

    def begin(toy, folder=tmp_path, **options):
        runs.append(toy_host.run_on(toy, folder, **options))
        return runs[-1]

    yield begin
    for run in runs:
        run.journal.close()
