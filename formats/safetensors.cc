#include "formats/safetensors.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <utility>

#include "base/bytes.h"
#include "base/result.h"
#include "base/strings.h"
#include "formats/npy.h"

namespace stowage {

namespace {

struct DTypeTag {
  DType dtype;
  std::string_view tag;
};
constexpr std::array<DTypeTag, 9> kTags = {{{DType::kF32, "F32"},
                                            {DType::kF64, "F64"},
                                            {DType::kF16, "F16"},
                                            {DType::kBF16, "BF16"},
                                            {DType::kI16, "I16"},
                                            {DType::kI32, "I32"},
                                            {DType::kI64, "I64"},
                                            {DType::kU8, "U8"},
                                            {DType::kBool, "BOOL"}}};

std::string JsonString(std::string_view text) {
  static constexpr char kHex[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (byte < 0x20) {
      out += StrCat("\\u00", kHex[byte >> 4], kHex[byte & 15]);
    } else {
      out += c;
    }
  }
  return out + "\"";
}

// "(2, 3)", for any rank.
std::string ShapeText(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (size_t i = 0; i < shape.size(); ++i) {
    text += StrCat(i == 0 ? "" : ", ", shape[i]);
  }
  return text + ")";
}

// A recursive-descent reader of the JSON subset that headers consist of:
// objects, strings, arrays of non-negative integers.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, Bytes data_bytes)
      : text_(text), data_bytes_(data_bytes) {}

  Result<SafetensorsHeader> Parse() {
    const bool parsed =
        Object([&](std::string key) {
          return key == "__metadata__" ? Metadata() : Tensor(std::move(key));
        }) &&
        AtEnd();
    if (!parsed) return Error{ErrorCode::kInvalidArgument, message_};
    std::ranges::sort(header_.tensors, {}, [](const SafeTensor& t) {
      return std::pair(t.begin, t.end);
    });
    Bytes covered = 0;
    for (const SafeTensor& tensor : header_.tensors) {
      if (tensor.begin != covered) return RangeError(tensor, covered);
      covered = tensor.end;
    }
    if (covered != data_bytes_) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[safetensors] the tensors cover ", covered, " bytes of ",
                 data_bytes_, "; the file is truncated or has bytes too many")};
    }
    return std::move(header_);
  }

 private:
  static Error RangeError(const SafeTensor& tensor, Bytes expected) {
    return Error{
        ErrorCode::kInvalidArgument,
        StrCat("[safetensors] tensor ", Quoted(tensor.name), " starts at byte ",
               tensor.begin, ", expected ", expected,
               "; ranges must follow without gap or overlap")};
  }

  bool Fail(std::string_view what) {
    if (message_.empty()) {
      message_ = StrCat("[safetensors] header byte ", pos_, ": ", what);
    }
    return false;
  }
  void SkipSpace() {
    while (pos_ < text_.size() && std::string_view(" \t\r\n").find(
                                      text_[pos_]) != std::string_view::npos) {
      ++pos_;
    }
  }
  bool Accept(char c) {
    SkipSpace();
    if (pos_ >= text_.size() || text_[pos_] != c) return false;
    ++pos_;
    return true;
  }
  bool Expect(char c) {
    return Accept(c) || Fail(StrCat("expected '", c, "'"));
  }
  bool AtEnd() {
    SkipSpace();
    return pos_ == text_.size() || Fail("text after the header's object");
  }

  // "{" key ":" value ... "}", where visit(key) reads the value.
  template <typename Visit>
  bool Object(Visit visit) {
    if (!Expect('{')) return false;
    if (Accept('}')) return true;
    do {
      std::string key;
      if (!String(&key) || !Expect(':') || !visit(std::move(key))) return false;
    } while (Accept(','));
    return Expect('}');
  }

  bool String(std::string* out) {
    if (!Expect('"')) return false;
    while (pos_ < text_.size() && text_[pos_] != '"') {
      const char c = text_[pos_++];
      if (static_cast<unsigned char>(c) < 0x20) {
        return Fail("a control character in a string");
      }
      if (c != '\\') {
        *out += c;
      } else if (!Escape(out)) {
        return false;
      }
    }
    return Expect('"');
  }

  bool Escape(std::string* out) {
    static constexpr std::string_view kNames = "\"\\/bfnrt";
    static constexpr std::string_view kValues = "\"\\/\b\f\n\r\t";
    const char c = pos_ < text_.size() ? text_[pos_++] : '\0';
    if (const size_t at = kNames.find(c); at != std::string_view::npos) {
      *out += kValues[at];
      return true;
    }
    unsigned code = 0;
    const char* const first = text_.data() + pos_;
    if (c != 'u' || text_.size() - pos_ < 4 ||
        std::from_chars(first, first + 4, code, 16).ptr != first + 4 ||
        code >= 0x80) {
      return Fail("an escape other than those of ASCII");
    }
    pos_ += 4;
    *out += static_cast<char>(code);
    return true;
  }

  bool Integers(std::vector<int64_t>* out) {
    if (!Expect('[')) return false;
    if (Accept(']')) return true;
    do {
      SkipSpace();
      int64_t number = 0;
      const char* const first = text_.data() + pos_;
      const auto [end, code] =
          std::from_chars(first, text_.data() + text_.size(), number);
      if (code != std::errc() || number < 0) {
        return Fail("expected a non-negative integer of 64 bits");
      }
      pos_ += static_cast<size_t>(end - first);
      out->push_back(number);
    } while (Accept(','));
    return Expect(']');
  }

  bool Metadata() {
    if (std::exchange(has_metadata_, true)) {
      return Fail("\"__metadata__\" comes twice");
    }
    std::set<std::string> keys;
    return Object([&](std::string key) {
      if (!keys.insert(key).second) {
        return Fail(StrCat("the metadata has the key ", Quoted(key), " twice"));
      }
      std::string value;
      if (!String(&value)) return false;
      header_.metadata.emplace_back(std::move(key), std::move(value));
      return true;
    });
  }

  bool Tensor(std::string name) {
    SafeTensor tensor{.name = std::move(name), .type = {}};
    std::string tag;
    std::vector<int64_t> shape, range;
    std::set<std::string> keys;
    const bool parsed = Object([&](const std::string& key) {
      if (!keys.insert(key).second) {
        return Fail(StrCat("tensor ", Quoted(tensor.name), " has the key ",
                           Quoted(key), " twice"));
      }
      if (key == "shape") return Integers(&shape);
      if (key == "data_offsets") return Integers(&range);
      if (key != "dtype") return Fail(StrCat("unknown key ", Quoted(key)));
      return String(&tag);
    });
    if (!parsed) return false;
    std::optional<int64_t> elements = 1;
    for (const int64_t size : shape) {
      if (elements) elements = CheckedMul(*elements, size);
    }
    if (tag.empty() || range.size() != 2 || !elements ||
        !keys.contains("shape")) {
      return Fail(StrCat("tensor ", Quoted(tensor.name),
                         " lacks a dtype, a shape whose elements 64 bits can "
                         "count or two data_offsets"));
    }
    const auto known = std::ranges::find(kTags, tag, &DTypeTag::tag);
    tensor.begin = range[0];
    tensor.end = range[1];
    if (known == kTags.end() || *elements == 0 || shape.size() > kMaxRank) {
      tensor.foreign = StrCat(tag, ShapeText(shape));
    } else {
      tensor.type = {known->dtype, Shape(std::span<const int64_t>(shape))};
    }
    // The element size of an unsupported dtype is unknown.
    const auto bytes = known == kTags.end()
                           ? tensor.end - tensor.begin
                           : CheckedMul(*elements, SizeOf(known->dtype));
    if (!bytes || *bytes < 0 || tensor.end - tensor.begin != *bytes) {
      return Fail(StrCat(
          "tensor ", Quoted(tensor.name), " is ",
          tensor.foreign.empty() ? tensor.type.ToString() : tensor.foreign,
          " but its range is [", tensor.begin, ", ", tensor.end, ")"));
    }
    if (!names_.insert(tensor.name).second) {
      return Fail(StrCat("two tensors are called ", Quoted(tensor.name)));
    }
    header_.tensors.push_back(std::move(tensor));
    return true;
  }

  std::string_view text_;
  Bytes data_bytes_;
  size_t pos_ = 0;
  std::string message_;
  std::set<std::string> names_;  // of tensors
  SafetensorsHeader header_;
  bool has_metadata_ = false;
};

}  // namespace

const std::string* SafetensorsHeader::Find(std::string_view key) const {
  for (const auto& [name, value] : metadata) {
    if (name == key) return &value;
  }
  return nullptr;
}

std::string FormatSafetensorsHeader(const SafetensorsHeader& header) {
  std::string out = "{\"__metadata__\":{";
  for (size_t i = 0; i < header.metadata.size(); ++i) {
    out += StrCat(i == 0 ? "" : ",", JsonString(header.metadata[i].first), ":",
                  JsonString(header.metadata[i].second));
  }
  out += "}";
  for (const SafeTensor& tensor : header.tensors) {
    STOWAGE_CHECK(tensor.foreign.empty());
    const auto tag =
        std::ranges::find(kTags, tensor.type.dtype, &DTypeTag::dtype);
    out += StrCat(",", JsonString(tensor.name), ":{\"dtype\":\"", tag->tag,
                  "\",\"shape\":[");
    for (int i = 0; i < tensor.type.shape.rank(); ++i) {
      out += StrCat(i == 0 ? "" : ",", tensor.type.shape[i]);
    }
    out += StrCat("],\"data_offsets\":[", tensor.begin, ",", tensor.end, "]}");
  }
  out += "}";
  out.resize(static_cast<size_t>(AlignUp(static_cast<Bytes>(out.size()), 8)),
             ' ');
  return out;
}

std::string SafetensorsPrefix(const SafetensorsHeader& header) {
  const std::string text = FormatSafetensorsHeader(header);
  const uint64_t length = text.size();
  static_assert(std::endian::native == std::endian::little);
  std::string prefix(sizeof(length), '\0');
  std::memcpy(prefix.data(), &length, sizeof(length));
  return prefix + text;
}

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view text,
                                                 Bytes data_bytes) {
  return HeaderParser(text, data_bytes).Parse();
}

namespace {

constexpr Bytes kMaxHeaderBytes = 100'000'000;  // the format's own limit
static_assert(std::endian::native == std::endian::little,
              "the files hold little-endian bytes");

}  // namespace

Result<SafetensorsFile> SafetensorsFile::Open(const std::string& path,
                                              std::string_view package,
                                              FileUse use) {
  STOWAGE_ASSIGN_OR_RETURN(InputFile opened,
                           InputFile::Open(path, package, use));
  SafetensorsFile file(std::move(opened));
  STOWAGE_RETURN_IF_ERROR(file.ReadHeader());
  return file;
}

Status SafetensorsFile::ReadHeader() {
  const Bytes size = file_.size();
  if (size < 8) {
    return Fail(StrCat("has ", size,
                       " bytes, too few for a header; it is truncated or no "
                       "safetensors file"));
  }
  uint64_t length = 0;
  STOWAGE_RETURN_IF_ERROR(
      file_.ReadAt(0, std::as_writable_bytes(std::span(&length, 1))));
  if (length > static_cast<uint64_t>(kMaxHeaderBytes) ||
      static_cast<Bytes>(length) > size - 8) {
    return Fail(StrCat("states a header of ", length, " bytes and has ", size,
                       "; it is truncated or no safetensors file"));
  }
  std::string text(length, '\0');
  STOWAGE_RETURN_IF_ERROR(
      file_.ReadAt(8, std::as_writable_bytes(std::span(text))));
  data_begin_ = 8 + static_cast<Bytes>(length);
  data_bytes_ = size - data_begin_;
  auto header = ParseSafetensorsHeader(text, data_bytes_);
  if (!header.ok()) {
    return Fail(StrCat("is damaged: ", header.error().message));
  }
  header_ = *std::move(header);
  return {};
}

Status SafetensorsFile::Read(Bytes begin, std::span<std::byte> to) const {
  STOWAGE_CHECK(begin >= 0 && static_cast<Bytes>(to.size()) <= data_bytes_ &&
                begin <= data_bytes_ - static_cast<Bytes>(to.size()));
  return file_.ReadAt(data_begin_ + begin, to);
}

Status SafetensorsFile::Read(const SafeTensor& tensor,
                             std::span<std::byte> to) const {
  STOWAGE_CHECK(tensor.end - tensor.begin == static_cast<Bytes>(to.size()));
  return Read(tensor.begin, to);
}

namespace {

// Returns whether the file has the magic of a ZIP archive, possibly empty.
Result<bool> IsArchive(const InputFile& file) {
  std::array<char, 4> first = {};
  if (file.size() < static_cast<Bytes>(first.size())) return false;
  STOWAGE_RETURN_IF_ERROR(
      file.ReadAt(0, std::as_writable_bytes(std::span(first))));
  const std::string_view begin(first.data(), first.size());
  return begin == "PK\3\4" || begin == "PK\5\6";
}

}  // namespace

Result<TensorFile> TensorFile::Open(const std::string& path,
                                    std::string_view package) {
  STOWAGE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path, package));
  STOWAGE_ASSIGN_OR_RETURN(const bool is_archive, IsArchive(file));
  if (!is_archive) {
    STOWAGE_ASSIGN_OR_RETURN(SafetensorsFile tensors,
                             SafetensorsFile::Open(path, package));
    return TensorFile(std::move(tensors));
  }
  std::string bytes(static_cast<size_t>(file.size()), '\0');
  STOWAGE_RETURN_IF_ERROR(
      file.ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  STOWAGE_ASSIGN_OR_RETURN(std::vector<NamedArray> arrays,
                           ParseNpz(bytes, path));
  std::vector<SafeTensor> tensors;
  for (const NamedArray& array : arrays) {
    tensors.push_back({.name = array.name, .type = array.array.type});
  }
  return TensorFile(
      Npz{std::move(file), std::move(arrays), std::move(tensors)});
}

const std::vector<SafeTensor>& TensorFile::tensors() const {
  if (const Npz* npz = std::get_if<Npz>(&file_)) return npz->tensors;
  return std::get<SafetensorsFile>(file_).header().tensors;
}

Status TensorFile::Read(const SafeTensor& tensor,
                        std::span<std::byte> to) const {
  const Npz* const npz = std::get_if<Npz>(&file_);
  if (npz == nullptr) return std::get<SafetensorsFile>(file_).Read(tensor, to);
  const auto index = static_cast<size_t>(&tensor - npz->tensors.data());
  std::ranges::copy(npz->arrays.at(index).array.data(), to.begin());
  return {};
}

Error TensorFile::Fail(std::string_view message, ErrorCode code) const {
  return std::visit(
      [&](const auto& file) {
        if constexpr (requires { file.Fail(message, code); }) {
          return file.Fail(message, code);
        } else {
          return file.file.Fail(message, code);
        }
      },
      file_);
}

}  // namespace stowage
