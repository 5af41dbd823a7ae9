#ifndef STOWAGE_TESTS_TOOLS_BROWSER_H_
#define STOWAGE_TESTS_TOOLS_BROWSER_H_

// Opens a page in headless Chromium and queries it with a script.
//
//   const Json answers = AskPage(html, "tell('title', document.title);");
//   CHECK(answers["title"] == "Stowage: gpt-nano.step");

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace stowage::testing {

/// Returns whether Chromium is installed. `tools/setup.sh --checks` installs it.
bool HasBrowser();

/// Opens a page and runs `script` after the scripts of the page. Returns the values that `script`
/// passes to tell(name, value), and the exceptions of all scripts under "errors". If `wants_dark`
/// is true, the preferred color scheme is dark.
nlohmann::json AskPage(const std::string& html, std::string_view script,
                       bool wants_dark = false);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_BROWSER_H_
