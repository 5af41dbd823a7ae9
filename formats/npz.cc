#include "formats/npz.h"

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>

#include "base/memory.h"
#include "base/strings.h"
#include "formats/gzip.h"
#include "formats/npy.h"

namespace stowage {
namespace {

// The parts of an archive (PKWARE's APPNOTE.TXT, 4.3), and where in each are the
// fields that count here.
constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr size_t kLocalBytes = 30;
constexpr uint32_t kEntryMagic = 0x02014b50;
constexpr size_t kEntryBytes = 46;
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr size_t kEndBytes = 22;
constexpr size_t kMostComment = 0xFFFF;
constexpr uint32_t kStored = 0;
constexpr uint32_t kDeflated = 8;
constexpr uint32_t kMost32 =
    0xFFFFFFFF;  // in its place ZIP64 has another field
constexpr size_t kMostEntries = 0xFFFE;
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

// CRC-32 as ZIP has it (ISO 3309).
uint32_t Crc32(std::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = MakeCrcTable();
  uint32_t crc = ~uint32_t{0};
  for (const char byte : bytes) {
    crc = kTable[(crc ^ static_cast<uint8_t>(byte)) & 0xFF] ^ crc >> 8;
  }
  return ~crc;
}

// A little-endian number of 2 or 4 bytes. Precondition: they are there.
uint32_t Number(std::string_view bytes, size_t at, size_t width) {
  uint32_t number = 0;
  for (size_t i = width; i-- > 0;) {
    number = number << 8 | static_cast<uint8_t>(bytes[at + i]);
  }
  return number;
}

void Append(std::string* out, uint32_t number, size_t width) {
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
    if (count > kMostEntries || size == kMost32 || start == kMost32) {
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
    if (entry.packed_size == kMost32 || entry.size == kMost32 ||
        entry.local == kMost32) {
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
  // Where the last part begins, which a comment may follow.
  std::optional<size_t> FindEnd() const {
    for (size_t comment = 0; comment <= kMostComment; ++comment) {
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
  if (arrays.size() > kMostEntries) {
    return fail(StrCat(arrays.size(), " arrays are more than ", kMostEntries,
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
        kMost32 - (kLocalBytes + 2 * kEntryBytes + 2 * name.size())) {
      return fail("the arrays take 4 GiB or more, which is not written");
    }
    // What the two headers of a file share: versions, flags, method, the first of
    // January 1980, and sizes.
    std::string shared;
    Append(&shared, 20, 2);
    Append(&shared, 0, 2);
    Append(&shared, kStored, 2);
    Append(&shared, 0, 2);
    Append(&shared, 0x21, 2);
    Append(&shared, Crc32(content), 4);
    Append(&shared, static_cast<uint32_t>(content.size()), 4);
    Append(&shared, static_cast<uint32_t>(content.size()), 4);
    Append(&shared, static_cast<uint32_t>(name.size()), 2);
    Append(&shared, 0, 2);
    Append(&list, kEntryMagic, 4);
    Append(&list, 20, 2);
    list += shared;
    list.append(10, '\0');  // no comment, the first disk, no attributes
    Append(&list, static_cast<uint32_t>(bytes.size()), 4);
    list += name;
    Append(&bytes, kLocalMagic, 4);
    bytes += shared;
    bytes += name;
    bytes += content;
  }
  const auto start = static_cast<uint32_t>(bytes.size());
  bytes += list;
  Append(&bytes, kEndMagic, 4);
  bytes.append(4, '\0');
  Append(&bytes, static_cast<uint32_t>(arrays.size()), 2);
  Append(&bytes, static_cast<uint32_t>(arrays.size()), 2);
  Append(&bytes, static_cast<uint32_t>(list.size()), 4);
  Append(&bytes, start, 4);
  bytes.append(2, '\0');
  return bytes;
}

}  // namespace stowage
