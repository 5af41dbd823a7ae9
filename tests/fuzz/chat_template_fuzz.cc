// Chat templates: one that is parsed writes conversations, the same each time, or says what
// it does that is not known; and it ends, whatever it does.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/check.h"
#include "text/jinja.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view jinja(reinterpret_cast<const char*>(data), size);
  const auto is_told = [](const Error& error) {
    return !error.message.empty() &&
           (error.code == ErrorCode::kUnsupported ||
            error.code == ErrorCode::kInvalidArgument);
  };
  const Result<ChatTemplate> chat =
      ChatTemplate::Parse(jinja, {{"bos_token", "<s>"}});
  if (!chat.ok()) {
    Check(is_told(chat.error()));
    return 0;
  }
  const std::vector<ChatMessage> talk = {
      {"system", "Be kind"}, {"user", "Hello"}, {"assistant", " \n<think>"}};
  for (const bool open_answer : {false, true}) {
    const ChatOptions options{.open_answer = open_answer, .thinking = false};
    const Result<std::string> text = chat->Format(talk, options);
    Check(text.ok() || is_told(text.error()));
    const Result<std::string> again = chat->Format(talk, options);
    Check(text.ok() ? again.ok() && *again == *text : !again.ok());
  }
  const Result<std::string> after = chat->AfterAnswer();
  Check(after.ok() || is_told(after.error()));
  return 0;
}
