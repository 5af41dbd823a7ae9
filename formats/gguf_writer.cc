#include "formats/gguf_writer.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "base/result.h"
#include "base/strings.h"

namespace stowage {
namespace {

constexpr uint32_t kVersion = 3;
constexpr int kMaxRank = 4;
constexpr Bytes kUsualAlignment = 32;
constexpr std::string_view kAlignmentKey = "general.alignment";

template <typename T>
void AppendField(T number, std::string* to) {
  to->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void AppendText(std::string_view text, std::string* to) {
  AppendField(uint64_t{text.size()}, to);
  *to += text;
}

Status CheckTensors(std::span<const GgufTensorToWrite> tensors) {
  std::set<std::string_view> names;
  for (const GgufTensorToWrite& tensor : tensors) {
    if (tensor.shape.rank() > kMaxRank) {
      return InvalidArgumentError("[gguf] tensor ", Quoted(tensor.name), " is ",
                                  tensor.shape.ToString(), "; at most ",
                                  kMaxRank, " dimensions are possible");
    }
    if (!names.insert(tensor.name).second) {
      return InvalidArgumentError("[gguf] two tensors are called ",
                                  Quoted(tensor.name));
    }
  }
  return {};
}

// All that stands before the tensors' bytes.
std::string HeaderText(const GgufMetadata& metadata,
                       std::span<const GgufTensorToWrite> tensors) {
  const Bytes alignment = metadata.alignment();
  std::string text = "GGUF";
  AppendField(kVersion, &text);
  AppendField(uint64_t{tensors.size()}, &text);
  AppendField(uint64_t{metadata.size()}, &text);
  text += metadata.Format();
  Bytes offset = 0;
  for (const GgufTensorToWrite& tensor : tensors) {
    AppendText(tensor.name, &text);
    const Shape& shape = tensor.shape;
    AppendField(static_cast<uint32_t>(shape.rank()), &text);
    for (int i = shape.rank(); i-- > 0;) {
      AppendField(static_cast<uint64_t>(shape[i]), &text);
    }
    AppendField(GgufNumberOf(tensor.type), &text);
    AppendField(static_cast<uint64_t>(offset), &text);
    offset += AlignUp(tensor.bytes(), alignment);
  }
  text.resize(static_cast<size_t>(AlignUp(std::ssize(text), alignment)));
  return text;
}

}  // namespace

GgufMetadata GgufMetadata::Of(const GgufHeader& header) {
  // By their places, which are in the order of the file.
  std::map<Bytes, const std::pair<const std::string, GgufValue>*> in_order;
  for (const auto& entry : header.values()) {
    in_order.emplace(entry.second.begin, &entry);
  }
  GgufMetadata metadata;
  for (const auto& [begin, entry] : in_order) {
    const GgufValue& value = entry->second;
    metadata.Put(entry->first, value.kind, value.is_array, value.count,
                 std::string(header.BytesOf(value)));
  }
  return metadata;
}

void GgufMetadata::SetAll(const GgufMetadata& other) {
  for (const Entry& entry : other.entries_) {
    Put(entry.key, entry.kind, entry.is_array, entry.count, entry.bytes);
  }
}

void GgufMetadata::Put(std::string_view key, GgufKind kind, bool is_array,
                       uint64_t count, std::string bytes) {
  const auto [place, is_new] =
      places_.try_emplace(std::string(key), entries_.size());
  if (is_new) entries_.emplace_back();
  entries_[place->second] = {std::string(key), kind, is_array, count,
                             std::move(bytes)};
}

void GgufMetadata::Remove(std::string_view key) {
  const auto found = places_.find(key);
  if (found == places_.end()) return;
  const size_t at = found->second;
  entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(at));
  places_.erase(found);
  for (auto& [other, place] : places_) {
    if (place > at) --place;
  }
}

Bytes GgufMetadata::alignment() const {
  const auto found = places_.find(kAlignmentKey);
  if (found == places_.end()) return kUsualAlignment;
  const Entry& entry = entries_[found->second];
  STOWAGE_CHECK(entry.kind == GgufKind::kU32 && !entry.is_array);
  uint32_t alignment = 0;
  std::memcpy(&alignment, entry.bytes.data(), sizeof(alignment));
  return alignment;
}

std::string GgufMetadata::Format() const {
  std::string text;
  for (const Entry& entry : entries_) {
    AppendText(entry.key, &text);
    const auto kind = static_cast<uint32_t>(entry.kind);
    if (entry.is_array) {
      AppendField(static_cast<uint32_t>(GgufKind::kArray), &text);
      AppendField(kind, &text);
      AppendField(entry.count, &text);
    } else {
      AppendField(kind, &text);
    }
    text += entry.bytes;
  }
  return text;
}

Status WriteGguf(
    const OutputFile& file, const GgufMetadata& metadata,
    std::span<const GgufTensorToWrite> tensors,
    const std::function<Status(size_t, const OutputFile::WritePart&)>&
        write_tensor) {
  STOWAGE_RETURN_IF_ERROR(CheckTensors(tensors));
  const std::string header = HeaderText(metadata, tensors);
  const Bytes alignment = metadata.alignment();
  return file.ReplaceBy([&](const OutputFile::WritePart& write) -> Status {
    STOWAGE_RETURN_IF_ERROR(write(std::as_bytes(std::span(header))));
    for (size_t i = 0; i < tensors.size(); ++i) {
      Bytes written = 0;
      STOWAGE_RETURN_IF_ERROR(
          write_tensor(i, [&](std::span<const std::byte> part) {
            written += std::ssize(part);
            return write(part);
          }));
      STOWAGE_CHECK(written == tensors[i].bytes());
      const std::vector<std::byte> padding(
          static_cast<size_t>(AlignUp(written, alignment) - written));
      STOWAGE_RETURN_IF_ERROR(write(padding));
    }
    return {};
  });
}

}  // namespace stowage
