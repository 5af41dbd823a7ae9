#ifndef STOWAGE_TESTS_TOOLS_BROWSER_H_
#define STOWAGE_TESTS_TOOLS_BROWSER_H_

// Opens a page in headless Chromium and queries it by a script.
//
//   const Json answers = AskPage(html, "tell('title', document.title);");
//   CHECK(answers["title"] == "Stowage: gpt-nano.step");

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace stowage::testing {

/// Whether Chromium is installed (tools/setup.sh --checks does it).
bool HasBrowser();

/// Runs `script` after the page's own. Returns the values that it passes to tell(name, value),
/// and under "errors" the exceptions of any script. `wants_dark` is the system's preferred color
/// scheme.
nlohmann::json AskPage(const std::string& html, std::string_view script,
                       bool wants_dark = false);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_BROWSER_H_
