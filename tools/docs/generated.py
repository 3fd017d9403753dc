"""Pages of docs/reference that are made from something else: written, or compared with what is there."""
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def finish(name, text, how, facts):
    """With --check on the command line says whether docs/reference/NAME is `text` (`how`: the command that makes it so), else
    writes it and says `facts` about it. Returns the exit code."""
    page = ROOT / "docs" / "reference" / name
    place = page.relative_to(ROOT)
    if "--check" in sys.argv[1:]:
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            print(f"{place} is not current: run  {how}")
            return 1
        print(f"{place} is current")
        return 0
    page.write_text(text, encoding="utf-8")
    print(f"wrote {place}, {facts}")
    return 0
