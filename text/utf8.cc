#include "text/utf8.h"

#include <cstdint>
#include <cstring>

namespace stowage::text {

namespace {

// How many bytes at the start of `text` are ASCII, or a few fewer.
size_t AsciiPrefix(std::string_view text) {
  size_t at = 0;
  for (uint64_t word; at + sizeof(word) <= text.size(); at += sizeof(word)) {
    std::memcpy(&word, text.data() + at, sizeof(word));
    if ((word & 0x8080808080808080u) != 0) break;
  }
  return at;
}

}  // namespace

Character FirstCharacter(std::string_view text) {
  const auto byte = [&](size_t at) {
    return static_cast<unsigned char>(text[at]);
  };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  // The lead says how many follow; some narrow the range of the first that follows
  // (The Unicode Standard, table 3-7).
  size_t follow = 0;
  unsigned lowest = 0x80, highest = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    follow = 1;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    follow = 2;
    if (lead == 0xE0) lowest = 0xA0;
    if (lead == 0xED) highest = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    follow = 3;
    if (lead == 0xF0) lowest = 0x90;
    if (lead == 0xF4) highest = 0x8F;
  } else {
    return {0xFFFD, 1, false};
  }
  char32_t code = lead & (0x3Fu >> follow);
  for (size_t at = 1; at <= follow; ++at) {
    if (at >= text.size() || byte(at) < lowest || byte(at) > highest) {
      return {0xFFFD, at, false};
    }
    code = (code << 6) | (byte(at) & 0x3Fu);
    lowest = 0x80, highest = 0xBF;
  }
  return {code, follow + 1};
}

std::string_view WellFormed(std::string_view text, std::string* storage) {
  size_t good = 0;  // where the bytes begin that have not been copied
  bool copied = false;
  for (size_t at = 0; at < text.size();) {
    at += AsciiPrefix(text.substr(at));
    if (at == text.size()) break;
    const Character character = FirstCharacter(text.substr(at));
    if (!character.well_formed) {
      if (!copied) storage->clear();
      copied = true;
      storage->append(text.substr(good, at - good));
      AppendUtf8(character.code, storage);
      good = at + character.bytes;
    }
    at += character.bytes;
  }
  if (!copied) return text;
  storage->append(text.substr(good));
  return *storage;
}

void AppendUtf8(char32_t code, std::string* out) {
  const auto add = [&](char32_t byte) { *out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3F));
    add(0x80 | (code >> 6 & 0x3F));
    add(0x80 | (code & 0x3F));
  }
}

bool IsWhiteSpace(char32_t code) {
  return (code >= 0x09 && code <= 0x0D) || code == 0x20 || code == 0x85 ||
         code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

size_t LastCharacter(std::string_view text) {
  size_t begin = text.size() - 1;
  while (begin > 0 &&
         (static_cast<unsigned char>(text[begin]) & 0xC0u) == 0x80u) {
    --begin;
  }
  return begin;
}

size_t TrailingSpace(std::string_view text) {
  while (!text.empty()) {
    const size_t begin = LastCharacter(text);
    if (!IsWhiteSpace(FirstCharacter(text.substr(begin)).code)) break;
    text = text.substr(0, begin);
  }
  return text.size();
}

size_t LeadingSpace(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    const Character character = FirstCharacter(text.substr(end));
    if (!IsWhiteSpace(character.code)) break;
    end += character.bytes;
  }
  return end;
}

}  // namespace stowage::text
