#include "formats/npy.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "base/memory.h"
#include "base/strings.h"
#include "formats/gzip.h"

namespace stowage {

namespace {

static_assert(std::endian::native == std::endian::little,
              "elements are copied as they are");

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kPreamble = 8;    // the magic and the version
constexpr size_t kAlignment = 64;  // of the first element, as NumPy writes it

constexpr std::array<std::pair<DType, std::string_view>, 8> kNpyTypes = {{
    {DType::kF16, "<f2"},
    {DType::kF32, "<f4"},
    {DType::kF64, "<f8"},
    {DType::kI16, "<i2"},
    {DType::kI32, "<i4"},
    {DType::kI64, "<i8"},
    {DType::kU8, "|u1"},
    {DType::kBool, "|b1"},
}};

/// Reads the dictionary, whose values are of three kinds.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  /// Absent if the text is not such a dictionary.
  std::optional<NpyHeader> Read() {
    NpyHeader header;
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

/// Transposes elements from column-major (first axis fastest) to row-major order.
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

Result<NpyHeader> ReadNpyHeader(std::string_view bytes,
                                std::string_view origin) {
  const auto fail = [&](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[npy] ", Quoted(origin), " ", why)};
  };
  if (!bytes.starts_with(kNpyMagic)) {
    return fail("is no NPY file: it does not begin with \\x93NUMPY");
  }
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  const int version =
      bytes.size() > kNpyMagic.size() ? byte(kNpyMagic.size()) : 0;
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
  const std::string_view body = bytes.substr(kPreamble + length_bytes);
  if (body.size() < length) {
    return fail(
        StrCat("has ", bytes.size(), " bytes; its header alone has ", length));
  }
  const std::string_view text = body.substr(0, length);
  std::optional<NpyHeader> header = HeaderReader(text).Read();
  if (!header) {
    return fail(
        StrCat("has a header that is not read: ", Quoted(text.substr(0, 80)),
               "; expected the keys descr, fortran_order and shape"));
  }
  header->begin = kPreamble + length_bytes + length;
  return *std::move(header);
}

Result<Array> ParseNpy(std::string_view bytes, std::string_view origin) {
  const auto fail = [&](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[npy] ", Quoted(origin), " ", why)};
  };
  STOWAGE_ASSIGN_OR_RETURN(const NpyHeader header,
                           ReadNpyHeader(bytes, origin));
  const std::string_view body = bytes.substr(header.begin);
  std::optional<DType> dtype;
  for (const auto& [type, name] : kNpyTypes) {
    // Some writers give bytes an order.
    if (name == header.type ||
        (SizeOf(type) == 1 &&
         name.substr(1) ==
             header.type.substr(std::min<size_t>(1, header.type.size())))) {
      dtype = type;
    }
  }
  if (!dtype) {
    return fail(StrCat("has elements of type ", Quoted(header.type),
                       "; expected <f2, <f4, <f8, <i2, <i4, <i8, |u1 or |b1"));
  }
  if (header.shape.rank() > kMaxRank) {
    return fail(StrCat("has ", header.shape.rank(), " dimensions; at most ",
                       kMaxRank, " are read"));
  }
  const TensorType type{*dtype, header.shape};
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
  Array array{type, header.by_columns ? ByRows(body, type) : std::string(body)};
  if (*dtype == DType::kBool) {
    for (char& element : array.bytes) element = element != 0;
  }
  return array;
}

Result<std::string> NpyBytes(const Array& array) {
  std::string_view name;
  for (const auto& [type, its_name] : kNpyTypes) {
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
  std::string bytes(kNpyMagic);
  bytes += '\1';
  bytes += '\0';
  bytes += static_cast<char>(header.size() & 0xFF);
  bytes += static_cast<char>(header.size() >> 8);
  bytes += header;
  bytes += array.bytes;
  return bytes;
}

namespace {

constexpr size_t kMagicBytes = 4;
constexpr size_t kDimBytes = 4;

std::optional<DType> TypeOf(uint8_t code) {
  switch (code) {
    case 0x08:
      return DType::kU8;
    case 0x0B:
      return DType::kI16;
    case 0x0C:
      return DType::kI32;
    case 0x0D:
      return DType::kF32;
    case 0x0E:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

Result<Array> Parse(std::string_view bytes, std::string_view origin) {
  const auto fail = [&](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument,
                 StrCat("[idx] ", Quoted(origin), " ", why)};
  };
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(bytes[i]); };
  if (bytes.size() < kMagicBytes) {
    return fail(StrCat("has ", bytes.size(),
                       " bytes; an IDX file begins with 4 that say its type"));
  }
  if (byte(0) != 0 || byte(1) != 0) {
    return fail(StrCat("is no IDX file: its first bytes are ", byte(0), ", ",
                       byte(1), "; expected 0, 0"));
  }
  const std::optional<DType> dtype = TypeOf(byte(2));
  if (!dtype) {
    return fail(StrCat("has elements of IDX type ", byte(2),
                       "; expected 8 (u8), 11 (i16), 12 (i32), 13 (f32) or 14 "
                       "(f64)"));
  }
  const int rank = byte(3);
  if (rank > kMaxRank) {
    return fail(
        StrCat("has ", rank, " dimensions; at most ", kMaxRank, " are read"));
  }
  const size_t header = kMagicBytes + static_cast<size_t>(rank) * kDimBytes;
  if (bytes.size() < header) {
    return fail(StrCat("has ", bytes.size(), " bytes; the header of ", rank,
                       " dimensions alone takes ", header));
  }
  TensorType type{*dtype, {}};
  for (size_t at = kMagicBytes; at < header; at += kDimBytes) {
    type.shape.push_back(int64_t{byte(at)} << 24 | byte(at + 1) << 16 |
                         byte(at + 2) << 8 | byte(at + 3));
  }
  const std::optional<int64_t> elements = type.shape.CheckedNumElements();
  const std::optional<Bytes> size =
      elements ? CheckedMul(*elements, SizeOf(*dtype)) : std::nullopt;
  if (!size) {
    return fail(StrCat("is of shape ", type.shape.ToString(),
                       ", which has no element or too many"));
  }
  const std::string_view body = bytes.substr(header);
  if (static_cast<size_t>(*size) != body.size()) {
    return fail(StrCat("has ", body.size(), " bytes after its header; ",
                       type.ToString(), " takes ", *size));
  }
  Array array{type, std::string(body)};
  const Bytes width = SizeOf(*dtype);
  if (std::endian::native == std::endian::little && width > 1) {
    for (auto at = array.bytes.begin(); at != array.bytes.end(); at += width) {
      std::reverse(at, at + width);
    }
  }
  return array;
}

}  // namespace

Result<Array> ParseIdx(std::string_view bytes, std::string_view origin) {
  if (!IsGzip(bytes)) return Parse(bytes, origin);
  STOWAGE_ASSIGN_OR_RETURN(const std::string unpacked, Gunzip(bytes, origin));
  return Parse(unpacked, origin);
}

namespace {

// The records of an archive (PKWARE's APPNOTE.TXT, 4.3), and the offsets of the fields that are
// used.
constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr size_t kLocalBytes = 30;
constexpr uint32_t kEntryMagic = 0x02014b50;
constexpr size_t kEntryBytes = 46;
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr size_t kEndBytes = 22;
constexpr size_t kMaxComment = 0xFFFF;
constexpr uint32_t kStored = 0;
constexpr uint32_t kDeflated = 8;
constexpr uint32_t kMax32 = 0xFFFFFFFF;  // in its place ZIP64 has another field
constexpr size_t kMaxEntries = 0xFFFE;
constexpr std::string_view kExtension = ".npy";

constexpr std::array<uint32_t, 256> MakeCrcTable() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < table.size(); ++byte) {
    uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) {
      value = value & 1 ? value >> 1 ^ 0xEDB88320 : value >> 1;
    }
    table[byte] = value;
  }
  return table;
}

// The CRC-32 of ZIP (ISO 3309).
uint32_t Crc32(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF] ^ crc >> 8;
  }
  return ~crc;
}

// A little-endian number of 2 or 4 bytes. Precondition: the bytes exist.
uint32_t Number(std::string_view bytes, size_t at, size_t width) {
  uint32_t number = 0;
  for (size_t i = width; i-- > 0;) {
    number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return number;
}

void AppendNumber(std::string* out, uint32_t number, size_t width) {
  for (size_t i = 0; i < width; ++i) {
    *out += static_cast<char>(number >> (8 * i) & 0xFF);
  }
}

struct Entry {
  std::string_view name;
  uint32_t flags, method, crc, packed_size, size, local;
};

class Archive {
 public:
  Archive(std::string_view bytes, std::string_view origin)
      : bytes_(bytes), origin_(origin) {}

  Error Fail(std::string_view why) const {
    return {ErrorCode::kInvalidArgument,
            StrCat("[npz] ", Quoted(origin_), " ", why)};
  }

  Result<std::vector<Entry>> Entries() const {
    const std::optional<size_t> end = FindEnd();
    if (!end) {
      return Fail(StrCat("is no NPZ file, or ends early: its ", bytes_.size(),
                         " bytes have no end of an archive"));
    }
    const uint32_t count = Number(bytes_, *end + 10, 2);
    const uint32_t size = Number(bytes_, *end + 12, 4);
    const uint32_t start = Number(bytes_, *end + 16, 4);
    if (Number(bytes_, *end + 4, 2) != 0 || Number(bytes_, *end + 6, 2) != 0 ||
        Number(bytes_, *end + 8, 2) != count) {
      return Fail("is one of several parts of an archive, which is not read");
    }
    if (count > kMaxEntries || size == kMax32 || start == kMax32) {
      return Fail("is an archive of 4 GiB or more (ZIP64), which is not read");
    }
    if (start > *end || size > *end - start) {
      return Fail(StrCat("says that its list begins at byte ", start,
                         " and takes ", size, "; it ends at byte ", *end));
    }
    std::string_view list = bytes_.substr(start, size);
    std::vector<Entry> entries;
    for (uint32_t i = 0; i < count; ++i) {
      if (list.size() < kEntryBytes || Number(list, 0, 4) != kEntryMagic) {
        return Fail(
            StrCat("has a list of ", count, " files that ends after ", i));
      }
      const size_t name = Number(list, 28, 2);
      const size_t all =
          kEntryBytes + name + Number(list, 30, 2) + Number(list, 32, 2);
      if (list.size() < all) {
        return Fail(
            StrCat("has a list of ", count, " files that ends after ", i));
      }
      entries.push_back({.name = list.substr(kEntryBytes, name),
                         .flags = Number(list, 8, 2),
                         .method = Number(list, 10, 2),
                         .crc = Number(list, 16, 4),
                         .packed_size = Number(list, 20, 4),
                         .size = Number(list, 24, 4),
                         .local = Number(list, 42, 4)});
      list.remove_prefix(all);
    }
    return entries;
  }

  Result<std::string> Read(const Entry& entry) const {
    const std::string where = StrCat(origin_, ":", entry.name);
    const auto fail = [&](std::string_view why) {
      return Fail(StrCat("has a file ", Quoted(entry.name), " that ", why));
    };
    if (entry.flags & 1) return fail("is encrypted, which is not read");
    if (entry.packed_size == kMax32 || entry.size == kMax32 ||
        entry.local == kMax32) {
      return fail("has 4 GiB or more (ZIP64), which is not read");
    }
    if (entry.local > bytes_.size() ||
        bytes_.size() - entry.local < kLocalBytes ||
        Number(bytes_, entry.local, 4) != kLocalMagic) {
      return fail(StrCat("is said to begin at byte ", entry.local,
                         ", where none does"));
    }
    const size_t start = entry.local + kLocalBytes +
                         Number(bytes_, entry.local + 26, 2) +
                         Number(bytes_, entry.local + 28, 2);
    if (start > bytes_.size() || bytes_.size() - start < entry.packed_size) {
      return fail(StrCat("ends early: it has ", entry.packed_size,
                         " bytes from byte ", start,
                         " on, the archive ends at ", bytes_.size()));
    }
    STOWAGE_RETURN_IF_ERROR(
        CheckMemory(StrCat("reading ", Quoted(where)), entry.size));
    const std::string_view packed = bytes_.substr(start, entry.packed_size);
    std::string content;
    if (entry.method == kStored) {
      if (entry.size != entry.packed_size) {
        return fail(StrCat("is said to hold ", entry.size, " bytes, stored as ",
                           entry.packed_size));
      }
      content = std::string(packed);
    } else if (entry.method == kDeflated) {
      STOWAGE_ASSIGN_OR_RETURN(content, Inflate(packed, entry.size, where));
    } else {
      return fail(StrCat("is compressed by method ", entry.method,
                         "; expected 0 (stored) or 8 (deflated)"));
    }
    if (const uint32_t crc = Crc32(content); crc != entry.crc) {
      return fail(StrCat("is damaged: its checksum is ", crc, ", expected ",
                         entry.crc));
    }
    return content;
  }

 private:
  // The offset of the last record, which a comment may follow.
  std::optional<size_t> FindEnd() const {
    for (size_t comment = 0; comment <= kMaxComment; ++comment) {
      if (bytes_.size() < kEndBytes + comment) break;
      const size_t at = bytes_.size() - kEndBytes - comment;
      if (Number(bytes_, at, 4) == kEndMagic &&
          Number(bytes_, at + 20, 2) == comment) {
        return at;
      }
    }
    return std::nullopt;
  }

  std::string_view bytes_, origin_;
};

}  // namespace

Result<std::vector<NamedArray>> ParseNpz(std::string_view bytes,
                                         std::string_view origin) {
  const Archive archive(bytes, origin);
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<Entry> entries, archive.Entries());
  std::vector<NamedArray> arrays;
  std::set<std::string_view> names;
  for (const Entry& entry : entries) {
    std::string_view name = entry.name;
    if (!name.ends_with(kExtension)) {
      return archive.Fail(StrCat("has a file ", Quoted(name),
                                 ", which is no .npy; expected arrays alone"));
    }
    name.remove_suffix(kExtension.size());
    if (!names.insert(name).second) {
      return archive.Fail(StrCat("has two arrays ", Quoted(name)));
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::string content, archive.Read(entry));
    STOWAGE_ASSIGN_OR_RETURN(
        Array array, ParseNpy(content, StrCat(origin, ":", entry.name)));
    arrays.push_back({std::string(name), std::move(array)});
  }
  return arrays;
}

Result<std::string> NpzBytes(std::span<const NamedArray> arrays) {
  const auto fail = [](std::string_view why) {
    return Error{ErrorCode::kInvalidArgument, StrCat("[npz] ", why)};
  };
  if (arrays.size() > kMaxEntries) {
    return fail(StrCat(arrays.size(), " arrays are more than ", kMaxEntries,
                       ", the most that an archive holds"));
  }
  std::string bytes, list;
  std::set<std::string_view> names;
  for (const NamedArray& named : arrays) {
    if (!names.insert(named.name).second) {
      return fail(StrCat("there are two arrays ", Quoted(named.name)));
    }
    const std::string name = StrCat(named.name, kExtension);
    if (name.size() > 0xFFFF) {
      return fail(StrCat("a name has ", named.name.size(),
                         " bytes; at most 65531 can be written"));
    }
    STOWAGE_ASSIGN_OR_RETURN(const std::string content, NpyBytes(named.array));
    if (bytes.size() + content.size() + list.size() + name.size() >=
        kMax32 - (kLocalBytes + 2 * kEntryBytes + 2 * name.size())) {
      return fail("the arrays take 4 GiB or more, which is not written");
    }
    // The fields that both headers of a file share: versions, flags, method, the date
    // 1980-01-01, and sizes.
    std::string shared;
    AppendNumber(&shared, 20, 2);
    AppendNumber(&shared, 0, 2);
    AppendNumber(&shared, kStored, 2);
    AppendNumber(&shared, 0, 2);
    AppendNumber(&shared, 0x21, 2);
    AppendNumber(&shared, Crc32(content), 4);
    AppendNumber(&shared, static_cast<uint32_t>(content.size()), 4);
    AppendNumber(&shared, static_cast<uint32_t>(content.size()), 4);
    AppendNumber(&shared, static_cast<uint32_t>(name.size()), 2);
    AppendNumber(&shared, 0, 2);
    AppendNumber(&list, kEntryMagic, 4);
    AppendNumber(&list, 20, 2);
    list += shared;
    list.append(10, '\0');  // no comment, the first disk, no attributes
    AppendNumber(&list, static_cast<uint32_t>(bytes.size()), 4);
    list += name;
    AppendNumber(&bytes, kLocalMagic, 4);
    bytes += shared;
    bytes += name;
    bytes += content;
  }
  const auto start = static_cast<uint32_t>(bytes.size());
  bytes += list;
  AppendNumber(&bytes, kEndMagic, 4);
  bytes.append(4, '\0');
  AppendNumber(&bytes, static_cast<uint32_t>(arrays.size()), 2);
  AppendNumber(&bytes, static_cast<uint32_t>(arrays.size()), 2);
  AppendNumber(&bytes, static_cast<uint32_t>(list.size()), 4);
  AppendNumber(&bytes, start, 4);
  bytes.append(2, '\0');
  return bytes;
}

}  // namespace stowage
