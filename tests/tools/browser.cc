#include "tests/tools/browser.h"

#include <cstdlib>

#include "base/result.h"
#include "base/strings.h"
#include "tests/tools/run_stowage.h"

namespace stowage::testing {
namespace {

constexpr std::string_view kBody = "<body>";
constexpr std::string_view kEnd = "</body>";
constexpr std::string_view kOpen = "<pre id=\"answers\">";
constexpr std::string_view kClose = "</pre>";

constexpr std::string_view kPrelude = R"(<script>
const answers = {errors: []};
const tell = (name, value) => { answers[name] = value; };
addEventListener('error', (event) => answers.errors.push(event.message));
</script>)";

constexpr std::string_view kHandOver = R"(<script>
const sheet = document.createElement('pre');
sheet.id = 'answers';
sheet.textContent = JSON.stringify(answers);
document.body.append(sheet);
</script>)";

// As the dump writes text.
std::string Unescaped(std::string_view text) {
  constexpr std::pair<std::string_view, char> kEntities[] = {
      {"&lt;", '<'}, {"&gt;", '>'}, {"&amp;", '&'}};
  std::string out;
  while (!text.empty()) {
    char next = text.front();
    size_t length = 1;
    for (const auto& [entity, meaning] : kEntities) {
      if (!text.starts_with(entity)) continue;
      next = meaning;
      length = entity.size();
    }
    out += next;
    text.remove_prefix(length);
  }
  return out;
}

}  // namespace

bool HasBrowser() {
  static const bool kHas =
      std::system("command -v chromium >/dev/null 2>&1") == 0;
  return kHas;
}

nlohmann::json AskPage(const std::string& html, std::string_view script,
                       bool wants_dark) {
  const size_t body = html.find(kBody);
  const size_t end = html.rfind(kEnd);
  STOWAGE_CHECK(body != html.npos && end != html.npos);
  const size_t start = body + kBody.size();
  const std::string path = WriteTemp(
      "page.html", StrCat(html.substr(0, start), kPrelude,
                          html.substr(start, end - start), "<script>\n", script,
                          "\n</script>\n", kHandOver, html.substr(end)));
  const std::string dump = TempPath("dump.html");
  const std::string command =
      StrCat("HOME='", TempPath("home"),
             "' timeout 120 chromium --headless --no-sandbox --disable-gpu "
             "--disable-dev-shm-usage --window-size=1400,1000 "
             "--blink-settings=preferredColorScheme=",
             wants_dark ? 0 : 1, " --user-data-dir='", TempPath("profile"),
             "' --dump-dom 'file://", path, "' >'", dump, "' 2>'",
             TempPath("chromium.log"), "'");
  const int status = std::system(command.c_str());
  const std::string text = ReadAll(dump);
  const size_t answers = text.rfind(kOpen);
  if (status != 0 || answers == text.npos) {
    return {{"errors",
             {StrCat("chromium ended with ", status, " and wrote ", text.size(),
                     " bytes: ", ReadAll(TempPath("chromium.log")))}}};
  }
  const size_t from = answers + kOpen.size();
  return nlohmann::json::parse(
      Unescaped(text.substr(from, text.find(kClose, from) - from)));
}

}  // namespace stowage::testing
