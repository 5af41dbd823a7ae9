// Examples in JSON lines, after a letter that chooses the chat template, and whether there
// is a token that ends them: each has a token to learn behind another.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/check.h"
#include "text/examples.h"

using namespace stowage;
using stowage::testing::Check;

namespace {

Tokenizer MakeTokenizer() {
  TokenizerParts parts;
  for (char c = ' ' + 1; c < 127; ++c) parts.tokens.emplace_back(1, c);
  parts.tokens.emplace_back("\u0120");  // a space, as bytes are written
  parts.tokens.emplace_back("\u010a");  // a line's end
  parts.tokens.emplace_back("ab");
  parts.merges = {"a b"};
  parts.pre_tokenizer = PreTokenizerSteps("gpt-2").value();
  parts.added = {{.text = "<|im_start|>", .id = 200, .special = true},
                 {.text = "<|im_end|>", .id = 201, .special = true}};
  return Tokenizer::Create(std::move(parts)).value();
}

std::vector<ChatTemplate> MakeTemplates() {
  std::vector<ChatTemplate> all;
  const std::string turns =
      "{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == "
      "0)"
      " %}{{ raise_exception('no turns') }}{% endif %}";
  const std::string chat_ml =
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}"
      "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>";
  for (const std::string& jinja :
       {"{% if messages[0].role != 'system' %}Be kind{% endif %}" + chat_ml +
            "assistant\n{% endif %}",
        std::string("{% for m in messages %}{{ m.role ~ m.content | trim }}. "
                    "{% endfor %}"),
        turns + "[{{ m.content.strip() }}]{% endfor %}",
        turns + "{{ m.content }} {% endfor %}",
        chat_ml + "assistant\n{% if enable_thinking is false %}<think>\n\n"
                  "</think>\n\n{% endif %}{% endif %}"}) {
    all.push_back(ChatTemplate::Parse(jinja).value());
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const Tokenizer tokenizer = MakeTokenizer();
  static const std::vector<ChatTemplate> templates = MakeTemplates();
  if (size == 0) return 0;
  const size_t which = data[0] & 7u;  // "@" is the first, "G" none
  ExampleFormat format;
  if (which < templates.size()) format.chat = &templates[which];
  if ((data[0] & 32u) != 0) format.end = 201;  // "`" to "g"
  const std::string_view text(reinterpret_cast<const char*>(data) + 1,
                              size - 1);
  const Result<TokenExamples> examples =
      ReadExamples(text, "fuzz", tokenizer, format);
  if (!examples.ok()) {
    Check(examples.error().code == ErrorCode::kInvalidArgument ||
          examples.error().code == ErrorCode::kUnsupported);
    return 0;
  }
  Check(examples->size() >= 1);
  Check(static_cast<std::ptrdiff_t>(examples->size()) <=
        std::ranges::count(text, '\n') + 1);
  for (size_t i = 0; i < examples->size(); ++i) {
    const auto tokens = examples->tokens(i);
    const auto learnt = examples->learnt(i);
    Check(tokens.size() >= 2 && learnt.size() == tokens.size());
    Check(std::ranges::count(learnt.subspan(1), 1) >= 1);
    Check(tokenizer.Decode(tokens).ok());
  }
  return 0;
}
