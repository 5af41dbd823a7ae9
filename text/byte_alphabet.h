#ifndef STOWAGE_TEXT_BYTE_ALPHABET_H_
#define STOWAGE_TEXT_BYTE_ALPHABET_H_

// How vocabularies write bytes: GPT-2's as one printable character each, SentencePiece's
// as "<0x0A>".
//
//   InAlphabet(" the") == "Ġthe";
//   OfAlphabet("Ġthe") == " the";
//   ByteToken('\n') == "<0x0A>";

#include <optional>
#include <string>
#include <string_view>

namespace stowage::text {

/// `bytes` in the alphabet that tokens are written in.
std::string InAlphabet(std::string_view bytes);
/// The bytes of a token; nothing where it holds another character.
std::optional<std::string> OfAlphabet(std::string_view token);

/// "<0x0A>", the token of a byte that SentencePiece falls back to.
std::string ByteToken(unsigned char byte);
/// The byte of such a token; nothing where it is another text.
std::optional<unsigned char> ByteOfToken(std::string_view token);

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_BYTE_ALPHABET_H_
