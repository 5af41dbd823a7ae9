// Chat templates: one that is recognized writes conversations, with what they say in
// them, and never something else for the same messages with an answer opened.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tests/fuzz/check.h"
#include "text/chat_template.h"

using namespace stowage;
using stowage::testing::Check;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view jinja(reinterpret_cast<const char*>(data), size);
  const Result<ChatTemplate> chat = ChatTemplate::Recognize(jinja);
  if (!chat.ok()) {
    Check(chat.error().code == ErrorCode::kUnsupported);
    return 0;
  }
  const std::vector<ChatMessage> talk = {
      {"user", "Hello"}, {"assistant", " \n"}, {"user", "<think>"}};
  const Result<std::string> closed = chat->Format(talk);
  Check(closed.ok());
  Check(closed->find("Hello") != std::string::npos);
  const Result<std::string> open = chat->Format(talk, {.open_answer = true});
  Check(open.ok() && open->starts_with(*closed));
  Check(!chat->Format({{"user", "a"}, {"tool", "b"}}).ok());
  const Result<std::string> ordered = chat->Format(
      {{"system", "Be kind"}, {"user", "Hello"}, {"assistant", "Hi"}});
  Check(ordered.ok() ? ordered->find("Be kind") != std::string::npos
                     : ordered.error().code == ErrorCode::kInvalidArgument);
  return 0;
}
