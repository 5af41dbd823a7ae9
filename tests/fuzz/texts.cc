// Parsers of texts to train on and of tokenizers.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/contrastive_texts.h"
#include "data/examples.h"
#include "data/labeled_texts.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/fuzz/fuzz.h"
#include "text/gguf_tokenizer.h"
#include "text/jinja.h"
#include "text/sentence_piece.h"
#include "text/text_template.h"
#include "text/tokenizer.h"
#include "text/tokenizer_file.h"

using namespace stowage;
using stowage::testing::Check;

namespace {

// Encodes texts by a tokenizer of any file, and decodes the tokens.
void UseTokenizer(TokenizerParts parts) {
  const Result<Tokenizer> tokenizer = Tokenizer::Create(std::move(parts));
  if (!tokenizer.ok()) {
    Check(tokenizer.error().code != ErrorCode::kIo);
    return;
  }
  Check(tokenizer->size() >= 1 && tokenizer->size() <= kMaxTokens);
  // ASCII, white space, marks that compose, what is special elsewhere, and no UTF-8.
  for (const std::string_view text : {"", "Once, in 1984, we're  ab\n\n",
                                      "e\u0301\u00e9\uac00\u11a8 \u3000<s>",
                                      "<|im_start|>\xc3\x28\xff a\xe2\x82"}) {
    for (const bool special : {true, false}) {
      const Result<std::vector<int32_t>> ids =
          tokenizer->Encode(text, {.special = special, .add_prefix = false});
      if (!ids.ok()) {
        Check(ids.error().code == ErrorCode::kInvalidArgument);
        continue;
      }
      Check(
          *tokenizer->Count(text, {.special = special, .add_prefix = false}) ==
          static_cast<int64_t>(ids->size()));
      for (const bool skip : {false, true}) {
        // A decoder may make far too much of it.
        const auto decoded = tokenizer->Decode(*ids, {.skip_special = skip});
        Check(decoded.ok() || decoded.error().message.find("become a text") !=
                                  std::string::npos);
      }
    }
  }
  // What goes around a text may be an id without a token.
  const Result<std::vector<int32_t>> whole = tokenizer->Encode("ab");
  if (!whole.ok()) return;
  for (const int32_t id : *whole) Check(id >= 0 && id < tokenizer->size());
  const auto decoded = tokenizer->Decode(*whole);
  Check(decoded.ok() || decoded.error().code == ErrorCode::kInvalidArgument);
}

// Chat templates: a parsed one formats conversations, each time the same, or returns an error
// that names what it does not support; and it ends.
FUZZ_TARGET(chat_template)(const uint8_t* data, size_t size) {
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

// Examples in JSON lines, after a letter that chooses the chat template, and whether there
// is a token that ends them: each has a token to learn behind another.
FUZZ_TARGET(examples)(const uint8_t* data, size_t size) {
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

// A line for each part: the pre-tokenizer's name, then "m" and a merge, or a digit,
// which is a token's type, and the token. "b" is the token that a text begins with. With
// the name "pieces" tokens have scores, in their order, and merges none; with "unigram",
// "c" is a charsmap besides.
GgufTokenizer FromLines(std::string_view text) {
  GgufTokenizer gguf;
  const auto next = [&] {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
  };
  gguf.pre = next();
  if (gguf.pre == "pieces") gguf.model = "llama";
  if (gguf.pre == "unigram") gguf.model = "t5";
  while (!text.empty()) {
    const std::string line = next();
    if (line.empty()) continue;
    if (line[0] == 'm') {
      gguf.merges.push_back(line.substr(1));
    } else if (line[0] == 'c') {
      gguf.charsmap = line.substr(1);
    } else if (line[0] == 'b') {
      gguf.bos = static_cast<int32_t>(line.size()) - 2;
    } else {
      gguf.token_types.push_back(line[0] - '0');
      gguf.tokens.push_back(line.substr(1));
      gguf.scores.push_back(-static_cast<double>(gguf.scores.size() / 2));
    }
  }
  return gguf;
}

void Use(GgufTokenizer gguf) {
  Result<TokenizerParts> parts = PartsOf(std::move(gguf));
  if (parts.ok()) UseTokenizer(*std::move(parts));
}

// Tokenizers in the headers of GGUF files, whole files at first; where such a file has
// none, its lines as tokens, merges and all, which need no lengths.
FUZZ_TARGET(gguf_tokenizer)(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const Result<GgufHeader> header = stowage::testing::ParseGguf(file);
  if (!header.ok()) {
    Use(FromLines(file));
    return 0;
  }
  Result<GgufTokenizer> gguf = GgufTokenizerOf(*header);
  if (!gguf.ok()) {
    Check(gguf.error().code != ErrorCode::kIo);
    return 0;
  }
  Use(*std::move(gguf));
  return 0;
}

// Rows with labels, after a letter that chooses the format: "a" JSON lines, "b" CSV, "c" TSV.
// What is read has a label for each row, that is found again.
FUZZ_TARGET(labeled_texts)(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr TableFormat kFormats[] = {TableFormat::kJsonLines,
                                      TableFormat::kCsv, TableFormat::kTsv};
  const std::string_view text(reinterpret_cast<const char*>(data) + 1,
                              size - 1);
  const Result<LabeledTexts> texts =
      ReadLabeledTexts(text, "fuzz", kFormats[(data[0] + 2u) % 3]);
  if (!texts.ok()) {
    Check(texts.error().code == ErrorCode::kInvalidArgument ||
          texts.error().code == ErrorCode::kUnsupported);
    return 0;
  }
  Check(!texts->rows.empty());
  const auto names = LabelNames(*texts, "fuzz");
  if (!names.ok()) return 0;
  Check(names->size() >= 2 && names->size() <= texts->rows.size());
  const auto labels = FindLabels(*texts, *names, "fuzz");
  Check(labels.ok() && labels->size() == texts->rows.size());
  return 0;
}

// Queries with documents. What is read has as many negatives as each row is said to have.
FUZZ_TARGET(contrastive_texts)(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<ContrastiveTexts> texts = ReadContrastiveTexts(text, "fuzz");
  if (!texts.ok()) {
    Check(texts.error().code == ErrorCode::kInvalidArgument);
    return 0;
  }
  Check(!texts->rows.empty());
  const auto negatives = NegativesOf(*texts, {}, "fuzz");
  Check(negatives.ok());
  for (const ContrastiveRow& row : texts->rows) {
    Check(!row.query.empty() && !row.positives.empty());
    Check(std::ssize(row.negatives) >= *negatives);
  }
  return 0;
}

// SentencePiece's files: what is taken makes a tokenizer or an error, and the tokenizer
// encodes and decodes.
FUZZ_TARGET(sentence_piece)(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  Result<SentencePieceModel> model = ParseSentencePieceModel(bytes);
  if (!model.ok()) {
    Check(model.error().code == ErrorCode::kInvalidArgument ||
          model.error().code == ErrorCode::kUnsupported);
    return 0;
  }
  Result<TokenizerParts> parts = PartsOf(*std::move(model));
  if (parts.ok()) UseTokenizer(*std::move(parts));
  return 0;
}

// tokenizer.json: what is taken makes a tokenizer or an error, and the tokenizer
// encodes and decodes.
FUZZ_TARGET(tokenizer_file)(const uint8_t* data, size_t size) {
  const std::string_view json(reinterpret_cast<const char*>(data), size);
  const Result<TextTemplate> joins = TextTemplate::Parse(json);
  Check(joins.ok() || joins.error().code == ErrorCode::kInvalidArgument ||
        joins.error().code == ErrorCode::kUnsupported);
  Result<TokenizerParts> parts = ParseTokenizerParts(json);
  if (!parts.ok()) {
    Check(parts.error().code == ErrorCode::kInvalidArgument ||
          parts.error().code == ErrorCode::kUnsupported);
    return 0;
  }
  UseTokenizer(*std::move(parts));
  return 0;
}

}  // namespace
