// Parsers of files of numbers: arrays, images, tokens, headers of checkpoints and of GGUF.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "data/token_shards.h"
#include "formats/gguf.h"
#include "formats/image.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "tests/formats/gguf_bytes.h"
#include "tests/fuzz/fuzz.h"

using namespace stowage;
using stowage::testing::Check;
using stowage::testing::Folder;

namespace {

// Headers of GGUF files (the corpus is the file of tests/goldens/make_gguf_goldens.py): tensors lie in the file and apart, values can be read.
FUZZ_TARGET(gguf)(const uint8_t* data, size_t size) {
  const std::string_view file(reinterpret_cast<const char*>(data), size);
  const Result<GgufHeader> header = stowage::testing::ParseGguf(file);
  if (!header.ok()) {
    Check(header.error().code != ErrorCode::kIo);
    return 0;
  }
  std::vector<GgufTensor> tensors = header->tensors();
  std::ranges::sort(tensors, {}, &GgufTensor::begin);
  std::vector<float> numbers;
  Bytes end = 0;
  for (const GgufTensor& tensor : tensors) {
    Check(tensor.begin >= end && tensor.bytes > 0);
    Check(BytesOf(tensor.type, tensor.shape.num_elements()) == tensor.bytes);
    end = tensor.begin + tensor.bytes;
    Check(end <= static_cast<Bytes>(size));
    numbers.resize(static_cast<size_t>(tensor.shape.num_elements()));
    Dequantize(tensor.type,
               std::as_bytes(
                   std::span(file).subspan(static_cast<size_t>(tensor.begin),
                                           static_cast<size_t>(tensor.bytes))),
               numbers);
  }
  for (const auto& [key, value] : header->values()) {
    const bool read = header->Text(key).ok() || header->Int(key).ok() ||
                      header->Real(key).ok() || header->Bool(key).ok() ||
                      header->Texts(key).ok() || header->Ints(key).ok() ||
                      header->Reals(key).ok();
    Check(read || value.kind == GgufKind::kBool ||
          value.kind == GgufKind::kU64);
  }
  return 0;
}

// IDX files, compressed ones too.
FUZZ_TARGET(idx)(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const Result<Array> array = ParseIdx(bytes, "fuzz");
  if (!array.ok()) return 0;
  Check(array->bytes.size() == static_cast<size_t>(array->type.bytes()));
  return 0;
}

// Images of both kinds, in colour and in grey.
FUZZ_TARGET(image)(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  for (const int64_t channels : {1, 3}) {
    const Result<Image> image = DecodeImage(bytes, channels, "fuzz");
    if (!image.ok()) continue;
    Check(image->channels == channels);
    Check(std::ssize(image->pixels) == channels * image->height * image->width);
  }
  return 0;
}

// NPZ and NPY files: what parses is written and parses again, equal.
FUZZ_TARGET(npz)(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (const Result<Array> array = ParseNpy(bytes, "fuzz"); array.ok()) {
    const Result<std::string> written = NpyBytes(*array);
    Check(written.ok());
    const Result<Array> again = ParseNpy(*written, "fuzz");
    Check(again.ok() && *again == *array);
  }
  const Result<std::vector<NamedArray>> arrays = ParseNpz(bytes, "fuzz");
  if (!arrays.ok()) return 0;
  const Result<std::string> written = NpzBytes(*arrays);
  Check(written.ok());
  const Result<std::vector<NamedArray>> again = ParseNpz(*written, "fuzz");
  Check(again.ok() && again->size() == arrays->size());
  for (size_t i = 0; i < arrays->size(); ++i) {
    Check((*again)[i].name == (*arrays)[i].name);
    Check((*again)[i].array == (*arrays)[i].array);
  }
  return 0;
}

// Headers of checkpoints, after a byte that says how much data follows.
FUZZ_TARGET(safetensors)(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (text.empty()) return 0;
  const Bytes data_bytes = 4 * static_cast<Bytes>(data[0]);
  const Result<SafetensorsHeader> header =
      ParseSafetensorsHeader(text.substr(1), data_bytes);
  if (!header.ok()) return 0;
  Bytes end = 0;
  bool writable = true;
  for (const SafeTensor& tensor : header->tensors) {
    Check(tensor.begin == end && tensor.end >= tensor.begin);
    if (!tensor.foreign.empty()) writable = false;
    end = tensor.end;
  }
  Check(end == data_bytes);
  if (!writable) return 0;
  Check(ParseSafetensorsHeader(FormatSafetensorsHeader(*header), data_bytes)
            .ok());
  return 0;
}

// Files of tokens: what one says that it has can be read.
FUZZ_TARGET(token_shards)(const uint8_t* data, size_t size) {
  constexpr int64_t kVocabulary = 1000;
  static Folder folder;
  if (size == 0) return 0;
  // The first byte says what the file is called.
  const std::string name = data[0] % 2 == 1 ? "t.npy" : "t.bin";
  folder.Write(name, {reinterpret_cast<const char*>(data) + 1, size - 1});
  const Result<TokenShards> shards =
      TokenShards::Open(folder.path() + "/" + name, kVocabulary);
  if (!shards.ok()) return 0;
  for (const auto* const parts : {&shards->train(), &shards->held_out()}) {
    for (const TokenShards::Part& part : *parts) {
      Check(part.begin >= 0 && part.tokens >= 0);
      std::vector<int32_t> tokens(static_cast<size_t>(part.tokens));
      const Status read = shards->Read(part, tokens);
      if (!read.ok()) {
        Check(read.error().code == ErrorCode::kInvalidArgument);
        continue;
      }
      for (const int32_t token : tokens) {
        Check(token >= 0 && token < kVocabulary);
      }
    }
  }
  return 0;
}

}  // namespace
