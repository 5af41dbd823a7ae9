#ifndef STOWAGE_TESTS_TOOLS_BROWSER_H_
#define STOWAGE_TESTS_TOOLS_BROWSER_H_

// A page, opened in Chromium without a window, and asked by a script.
//
//   const Json answers = AskPage(html, "tell('title', document.title);");
//   CHECK(answers["title"] == "Stowage: gpt-nano.step");

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace stowage::testing {

/// Whether Chromium is installed (tools/setup.sh --checks does it).
bool HasBrowser();

/// Runs `script` when the page's own has run. What it passes to tell(name, value)
/// comes back, and under "errors" what any script threw. `wants_dark`: what the
/// system is said to prefer.
nlohmann::json AskPage(const std::string& html, std::string_view script,
                       bool wants_dark = false);

}  // namespace stowage::testing

#endif  // STOWAGE_TESTS_TOOLS_BROWSER_H_
