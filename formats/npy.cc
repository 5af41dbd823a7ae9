#include "formats/npy.h"

#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "base/strings.h"

namespace stowage {
namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are copied as they are");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kPreamble = 8;    // the magic and the version
constexpr size_t kAlignment = 64;  // of the first element, as NumPy writes it

constexpr std::array<std::pair<DType, std::string_view>, 8> kTypes = {{
    {DType::kF16, "<f2"},
    {DType::kF32, "<f4"},
    {DType::kF64, "<f8"},
    {DType::kI16, "<i2"},
    {DType::kI32, "<i4"},
    {DType::kI64, "<i8"},
    {DType::kU8, "|u1"},
    {DType::kBool, "|b1"},
}};

struct Header {
  std::string_view type;
  bool by_columns = false;
  Shape shape;
};

/// Reads the dictionary, whose values are of three kinds.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  /// Absent where the text is no such dictionary.
  std::optional<Header> Read() {
    Header header;
    bool has_type = false, has_order = false, has_shape = false;
    if (!Take('{')) return std::nullopt;
    while (!Take('}')) {
      const std::optional<std::string_view> key = String();
      if (!key || !Take(':')) return std::nullopt;
      bool good = false;
      if (*key == "descr" && !has_type) {
        const std::optional<std::string_view> type = String();
        good = has_type = type.has_value();
        if (type) header.type = *type;
      } else if (*key == "fortran_order" && !has_order) {
        good = has_order = Flag(&header.by_columns);
      } else if (*key == "shape" && !has_shape) {
        good = has_shape = Tuple(&header.shape);
      }
      if (!good) return std::nullopt;
      if (!Take(',') && !At('}')) return std::nullopt;
    }
    Spaces();
    if (!text_.empty() || !has_type || !has_order || !has_shape) {
      return std::nullopt;
    }
    return header;
  }

 private:
  void Spaces() {
    const size_t first = text_.find_first_not_of(" \n");
    text_.remove_prefix(std::min(first, text_.size()));
  }
  bool At(char c) {
    Spaces();
    return text_.starts_with(c);
  }
  bool Take(char c) {
    if (!At(c)) return false;
    text_.remove_prefix(1);
    return true;
  }
  bool TakeWord(std::string_view word) {
    Spaces();
    if (!text_.starts_with(word)) return false;
    text_.remove_prefix(word.size());
    return true;
  }
  std::optional<std::string_view> String() {
    for (const char quote : {'\'', '"'}) {
      if (!Take(quote)) continue;
      const size_t end = text_.find(quote);
      if (end == std::string_view::npos) return std::nullopt;
      const std::string_view string = text_.substr(0, end);
      text_.remove_prefix(end + 1);
      return string;
    }
    return std::nullopt;
  }
  bool Flag(bool* flag) {
    *flag = TakeWord("True");
    return *flag || TakeWord("False");
  }
  bool Tuple(Shape* shape) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      Spaces();
      int64_t dim = 0;
      const char* const end = text_.data() + text_.size();
      const auto parsed = std::from_chars(text_.data(), end, dim);
      if (parsed.ec != std::errc() || dim < 0) return false;
      text_.remove_prefix(static_cast<size_t>(parsed.ptr - text_.data()));
      shape->push_back(dim);
      if (!Take(',') && !At(')')) return false;
    }
    return true;
  }

  std::string_view text_;
};

/// Elements that stand column by column, the first axis fastest, in rows.
std::string ByRows(std::string_view columns, const TensorType& type) {
  const auto width = static_cast<size_t>(SizeOf(type.dtype));
  std::string rows(columns.size(), '\0');
  Dims index = Dims::Filled(type.shape.rank(), 0);
  for (size_t to = 0; to < rows.size(); to += width) {
    int64_t from = 0;
    for (int axis = type.shape.rank() - 1; axis >= 0; --axis) {
      from = from * type.shape[axis] + index[axis];
    }
    rows.replace(to, width, columns, static_cast<size_t>(from) * width, width);
    for (int axis = type.shape.rank() - 1; axis >= 0; --axis) {
      if (++index[axis] < type.shape[axis]) break;
      index[axis] = 0;
    }
  }
  return rows;
}

}  // namespace

Result<Array> ParseNpy(std::string_view bytes, std::string_view origin) {
  const auto fail = [&](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[npy] ", Quoted(origin), " ", why)};
  };
  if (!bytes.starts_with(kMagic)) {
    return fail("is no NPY file: it does not begin with \\x93NUMPY");
  }
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const int version = bytes.size() > kMagic.size() ? byte(kMagic.size()) : 0;
  if (version < 1 || version > 3) {
    return fail(StrCat("is of version ", version, "; expected 1, 2 or 3"));
  }
  const size_t length_bytes = version == 1 ? 2 : 4;
  if (bytes.size() < kPreamble + length_bytes) {
    return fail(
        StrCat("has ", bytes.size(), " bytes, which end in its header"));
  }
  size_t length = 0;
  for (size_t i = length_bytes; i-- > 0;) {
    length = length << 8 | byte(kPreamble + i);
  }
  std::string_view body = bytes.substr(kPreamble + length_bytes);
  if (body.size() < length) {
    return fail(
        StrCat("has ", bytes.size(), " bytes; its header alone has ", length));
  }
  const std::string_view text = body.substr(0, length);
  body.remove_prefix(length);
  const std::optional<Header> header = HeaderReader(text).Read();
  if (!header) {
    return fail(
        StrCat("has a header that is not read: ", Quoted(text.substr(0, 80)),
               "; expected the keys descr, fortran_order and shape"));
  }
  std::optional<DType> dtype;
  for (const auto& [type, name] : kTypes) {
    // A byte has no order, and some write it so.
    if (name == header->type ||
        (SizeOf(type) == 1 &&
         name.substr(1) ==
             header->type.substr(std::min<size_t>(1, header->type.size())))) {
      dtype = type;
    }
  }
  if (!dtype) {
    return fail(StrCat("has elements of type ", Quoted(header->type),
                       "; expected <f2, <f4, <f8, <i2, <i4, <i8, |u1 or |b1"));
  }
  if (header->shape.rank() > kMaxRank) {
    return fail(StrCat("has ", header->shape.rank(), " dimensions; at most ",
                       kMaxRank, " are read"));
  }
  const TensorType type{*dtype, header->shape};
  const std::optional<int64_t> elements = type.shape.CheckedNumElements();
  const std::optional<Bytes> size =
      elements ? CheckedMul(*elements, SizeOf(*dtype)) : std::nullopt;
  if (!size) {
    return fail(StrCat("is of shape ", type.shape.ToString(),
                       ", which has no element or too many"));
  }
  if (static_cast<size_t>(*size) != body.size()) {
    return fail(StrCat("has ", body.size(), " bytes after its header; ",
                       type.ToString(), " takes ", *size));
  }
  Array array{type,
              header->by_columns ? ByRows(body, type) : std::string(body)};
  if (*dtype == DType::kBool) {
    for (char& element : array.bytes) element = element != 0;
  }
  return array;
}

Result<std::string> NpyBytes(const Array& array) {
  std::string_view name;
  for (const auto& [type, its_name] : kTypes) {
    if (type == array.type.dtype) name = its_name;
  }
  if (name.empty()) {
    return Error{ErrorCode::kUnsupported,
                 StrCat("[npy] NumPy has no type for ",
                        DTypeName(array.type.dtype), "; cast to f32 first")};
  }
  std::string dims;
  for (const int64_t dim : array.type.shape) dims += StrCat(dim, ", ");
  if (array.type.shape.rank() > 1) dims.resize(dims.size() - 2);
  if (array.type.shape.rank() == 1) dims.pop_back();  // (3,)
  std::string header =
      StrCat("{'descr': '", name, "', 'fortran_order': False, 'shape': (", dims,
             "), }");
  const size_t before = kPreamble + 2;
  header.append(kAlignment - (before + header.size() + 1) % kAlignment, ' ');
  header += '\n';
  std::string bytes(kMagic);
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes += array.bytes;
  return bytes;
}

}  // namespace stowage
