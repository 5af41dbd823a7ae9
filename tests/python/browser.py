"""Chromium, without a window, asked about a page by a script."""

import json
import os
import re
import html
import shutil
import subprocess
import tempfile

COMMAND = shutil.which("chromium")


def ask(body, script):
    """Shows `body` as a page, and runs `script` when all in it has been loaded. What the
    script passes to tell(name, value) comes back; under "errors", what any script of the
    page, or of a frame in it, threw or wrote to the console."""
    page = f"""<!doctype html><meta charset="utf-8"><body><main></main><script>
const answers = {{}};
const tell = (name, value) => {{ answers[name] = value; }};
// As a notebook puts the outputs of its cells into its page.
document.querySelector('main').innerHTML = {json.dumps(body).replace("</", "<" + chr(92) + "/")};
addEventListener('load', () => {{
  {script}
  const sheet = document.createElement('pre');
  sheet.id = 'answers';
  sheet.textContent = JSON.stringify(answers);
  document.body.append(sheet);
}});
</script></body>"""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "page.html")
        with open(path, "w", encoding="utf-8") as file:
            file.write(page)
        done = subprocess.run(
            [COMMAND, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
             "--window-size=1200,1600", "--enable-logging=stderr",
             f"--user-data-dir={folder}/profile", "--dump-dom", f"file://{path}"],
            env={**os.environ, "HOME": folder}, timeout=240, check=False,
            capture_output=True, text=True)
    found = re.search(r'<pre id="answers">(.*?)</pre>', done.stdout, re.DOTALL)
    if done.returncode or not found:
        raise AssertionError(f"chromium ended with {done.returncode}: {done.stderr}")
    answers = json.loads(html.unescape(found[1]))
    answers["errors"] = re.findall(r"CONSOLE.*", done.stderr)
    return answers
