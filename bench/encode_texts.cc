// Encodes the texts of a file by a tokenizer.json, for bench/compare_tokens.py, which compares
// the ids with those of the `tokenizers` package.
//
//   encode_texts TOKENIZER TEXTS OUT [plain]
//
// With "plain", special tokens in a text are treated as text, and skipped in decoding.
//
// TEXTS is a sequence of texts, each as its length in bytes, 32 bits, and the bytes. For each,
// OUT gets the number of ids, 32 bits, and the ids, then the decoded text as in TEXTS. Prints
// the seconds of loading the tokenizer, encoding and decoding.

#include <chrono>
#include <cstdint>
#include <cstring>
#include <iostream>

#include "base/files.h"
#include "text/text.h"

namespace {

using Clock = std::chrono::steady_clock;

double Seconds(Clock::time_point since) {
  return std::chrono::duration<double>(Clock::now() - since).count();
}

int Fail(const std::string& message) {
  std::cerr << message << '\n';
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool plain = argc == 5 && std::string_view(argv[4]) == "plain";
  if (argc != 4 && !plain) {
    return Fail("usage: encode_texts TOKENIZER TEXTS OUT [plain]");
  }
  Clock::time_point start = Clock::now();
  const auto tokenizer = stowage::ReadTokenizer(argv[1]);
  if (!tokenizer.ok()) return Fail(tokenizer.error().message);
  const double read = Seconds(start);
  const auto file = stowage::ReadFile(argv[2]);
  if (!file.ok()) return Fail(file.error().message);
  std::vector<std::string_view> texts;
  for (size_t at = 0; at + 4 <= file->size();) {
    uint32_t size = 0;
    std::memcpy(&size, file->data() + at, sizeof(size));
    texts.push_back(std::string_view(*file).substr(at + 4, size));
    at += 4 + size;
  }
  start = Clock::now();
  std::vector<std::vector<int32_t>> all;
  for (const std::string_view text : texts) {
    auto ids =
        tokenizer->Encode(text, {.special = !plain, .add_prefix = false});
    if (!ids.ok()) return Fail(ids.error().message);
    all.push_back(std::move(*ids));
  }
  const double encode = Seconds(start);
  start = Clock::now();
  std::vector<std::string> decoded;
  for (const std::vector<int32_t>& ids : all) {
    auto text = tokenizer->Decode(ids, {.skip_special = plain});
    if (!text.ok()) return Fail(text.error().message);
    decoded.push_back(std::move(*text));
  }
  const double decode = Seconds(start);
  std::string out;
  const auto append = [&](const auto& values) {
    const auto count = static_cast<uint32_t>(values.size());
    out.append(reinterpret_cast<const char*>(&count), sizeof(count));
    out.append(reinterpret_cast<const char*>(values.data()),
               values.size() * sizeof(values[0]));
  };
  for (size_t i = 0; i < all.size(); ++i) {
    append(all[i]);
    append(decoded[i]);
  }
  const auto written = stowage::OutputFile::Claim(argv[3]);
  if (!written.ok()) return Fail(written.error().message);
  if (const auto saved = written->Replace(out); !saved.ok()) {
    return Fail(saved.error().message);
  }
  std::cout << read << ' ' << encode << ' ' << decode << '\n';
  return 0;
}
