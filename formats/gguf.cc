#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/memory.h"
#include "base/result.h"
#include "base/strings.h"
#include "math/weight_blocks.h"

namespace stowage {

namespace {

constexpr uint32_t kGgufMagic = 0x46554747;  // "GGUF", little-endian
constexpr uint32_t kMaxDimensions = 4;
constexpr Bytes kMaxNameBytes = 65'535;  // the format's own limit, of a key
constexpr Bytes kFirstWindow = 65'536;
constexpr Bytes kDefaultAlignment = 32;

// The minimum bytes of a key with its value, and of a tensor in the table.
constexpr Bytes kMinValue = 8 + 4 + 1;
constexpr Bytes kMinTensor = 8 + 4 + 4 + 8;

struct KindInfo {
  std::string_view name;
  Bytes bytes;  // of one; of a text, of its length
};
constexpr std::array<KindInfo, 13> kKinds = {{{"u8", 1},
                                              {"i8", 1},
                                              {"u16", 2},
                                              {"i16", 2},
                                              {"u32", 4},
                                              {"i32", 4},
                                              {"f32", 4},
                                              {"bool", 1},
                                              {"text", 8},
                                              {"array", 0},
                                              {"u64", 8},
                                              {"i64", 8},
                                              {"f64", 8}}};

const KindInfo& InfoOf(GgufKind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

struct TypeNumber {
  uint32_t number;
  std::string_view name;
  std::optional<WeightType> type;  // absent where it is not read
};
// ggml's tensor types (ggml.h).
constexpr TypeNumber kGgufTypes[] = {
    {0, "F32", WeightType::kF32},
    {1, "F16", WeightType::kF16},
    {2, "Q4_0", WeightType::kQ4_0},
    {3, "Q4_1", WeightType::kQ4_1},
    {6, "Q5_0", WeightType::kQ5_0},
    {7, "Q5_1", WeightType::kQ5_1},
    {8, "Q8_0", WeightType::kQ8_0},
    {9, "Q8_1", {}},
    {10, "Q2_K", WeightType::kQ2_K},
    {11, "Q3_K", WeightType::kQ3_K},
    {12, "Q4_K", WeightType::kQ4_K},
    {13, "Q5_K", WeightType::kQ5_K},
    {14, "Q6_K", WeightType::kQ6_K},
    {15, "Q8_K", {}},
    {16, "IQ2_XXS", {}},
    {17, "IQ2_XS", {}},
    {18, "IQ3_XXS", {}},
    {19, "IQ1_S", {}},
    {20, "IQ4_NL", WeightType::kIQ4_NL},
    {21, "IQ3_S", {}},
    {22, "IQ2_S", {}},
    {23, "IQ4_XS", WeightType::kIQ4_XS},
    {24, "I8", {}},
    {25, "I16", {}},
    {26, "I32", {}},
    {27, "I64", {}},
    {28, "F64", {}},
    {29, "IQ1_M", {}},
    {30, "BF16", WeightType::kBF16},
    {34, "TQ1_0", WeightType::kTQ1_0},
    {35, "TQ2_0", WeightType::kTQ2_0},
    {39, "MXFP4", WeightType::kMXFP4},
    {40, "NVFP4", {}},
    {41, "Q1_0", {}},
};

// "F32, F16, ...": the supported types.
std::string KnownTypes() {
  std::string names;
  for (int i = 0; i < kWeightTypes; ++i) {
    names +=
        StrCat(i == 0 ? "" : ", ", FormatOf(static_cast<WeightType>(i)).name);
  }
  return names;
}

// A number of the file, converted to To.
template <typename To>
To ConvertedNumber(GgufKind kind, const char* from) {
  const auto load = [&](auto value) {
    std::memcpy(&value, from, sizeof(value));
    return static_cast<To>(value);
  };
  switch (kind) {
    case GgufKind::kU8:
    case GgufKind::kBool:
      return load(uint8_t{});
    case GgufKind::kI8:
      return load(int8_t{});
    case GgufKind::kU16:
      return load(uint16_t{});
    case GgufKind::kI16:
      return load(int16_t{});
    case GgufKind::kU32:
      return load(uint32_t{});
    case GgufKind::kI32:
      return load(int32_t{});
    case GgufKind::kU64:
      return load(uint64_t{});
    case GgufKind::kI64:
      return load(int64_t{});
    case GgufKind::kF32:
      return load(float{});
    case GgufKind::kF64:
      return load(double{});
    case GgufKind::kText:
    case GgufKind::kArray:
      break;
  }
  return To{};
}

template <typename To>
std::vector<To> AllConverted(const GgufValue& value, const char* from) {
  std::vector<To> numbers(value.count);
  for (To& number : numbers) {
    number = ConvertedNumber<To>(value.kind, from);
    from += InfoOf(value.kind).bytes;
  }
  return numbers;
}

std::string_view TextAt(const char* from) {
  uint64_t length = 0;
  std::memcpy(&length, from, sizeof(length));
  return {from + sizeof(length), length};
}

}  // namespace

std::string GgufValue::Describe() const {
  if (!is_array) return std::string(InfoOf(kind).name);
  return StrCat("array of ", count, " ", InfoOf(kind).name);
}

class GgufParser {
 public:
  GgufParser(Bytes file_bytes, const GgufHeader::ReadAt& read)
      : file_bytes_(file_bytes), read_(read) {}

  Result<GgufHeader> Parse() {
    STOWAGE_RETURN_IF_ERROR(ReadCounts());
    for (uint64_t i = 0; i < value_count_; ++i) {
      STOWAGE_RETURN_IF_ERROR(ReadValue());
    }
    STOWAGE_RETURN_IF_ERROR(FindAlignment());
    for (uint64_t i = 0; i < tensor_count_; ++i) {
      STOWAGE_RETURN_IF_ERROR(ReadTensor());
    }
    STOWAGE_RETURN_IF_ERROR(PlaceTensors());
    header_.bytes_.resize(static_cast<size_t>(at_));
    header_.bytes_.shrink_to_fit();
    return std::move(header_);
  }

 private:
  template <typename... Args>
  Error Fail(const Args&... what) const {
    return {ErrorCode::kInvalidArgument,
            StrCat("[gguf] byte ", at_, ": ", what...)};
  }

  Bytes Left() const { return file_bytes_ - at_; }

  // Loads the next `count` bytes unless they are loaded, and returns their address.
  Result<const char*> Take(Bytes count, std::string_view what) {
    if (count > Left()) {
      return Fail(what, " of ", count,
                  " bytes goes beyond the end of the file, "
                  "which has ",
                  file_bytes_, "; it is truncated or damaged");
    }
    std::vector<char>& bytes = header_.bytes_;
    const Bytes have = std::ssize(bytes);
    if (at_ + count > have) {
      const Bytes want = std::min(
          file_bytes_, std::max({at_ + count, 2 * have, kFirstWindow}));
      STOWAGE_RETURN_IF_ERROR(CheckMemory("the header of a GGUF file", want));
      bytes.resize(static_cast<size_t>(want));
      STOWAGE_RETURN_IF_ERROR(read_(
          have, std::as_writable_bytes(
                    std::span(bytes).subspan(static_cast<size_t>(have)))));
    }
    const char* const from = bytes.data() + at_;
    at_ += count;
    return from;
  }

  template <typename T>
  Result<T> Number(std::string_view what) {
    STOWAGE_ASSIGN_OR_RETURN(const char* const from, Take(sizeof(T), what));
    T number;
    std::memcpy(&number, from, sizeof(number));
    return number;
  }

  // A length and a string.
  Result<std::string_view> Text(std::string_view what, Bytes most) {
    STOWAGE_ASSIGN_OR_RETURN(const uint64_t length, Number<uint64_t>(what));
    if (length > static_cast<uint64_t>(std::min(Left(), most))) {
      return Fail(what, " has a length of ", length, "; there are ", Left(),
                  " bytes left",
                  Left() > most ? StrCat(", and it may have ", most) : "");
    }
    const auto size = static_cast<Bytes>(length);
    STOWAGE_ASSIGN_OR_RETURN(const char* const from, Take(size, what));
    return std::string_view(from, length);
  }

  Status CheckCount(uint64_t count, Bytes least, std::string_view what) const {
    if (count <= static_cast<uint64_t>(Left() / least)) return {};
    return Fail("there would be ", count, " ", what, " of at least ", least,
                " bytes each, and ", Left(),
                " bytes are left; the file is truncated or damaged");
  }

  Status ReadCounts() {
    STOWAGE_ASSIGN_OR_RETURN(const uint32_t magic,
                             Number<uint32_t>("the mark"));
    if (magic != kGgufMagic) {
      return Error{ErrorCode::kInvalidArgument,
                   "[gguf] the first four bytes are not GGUF; it is another "
                   "kind of file"};
    }
    STOWAGE_ASSIGN_OR_RETURN(header_.version_, Number<uint32_t>("the version"));
    const uint32_t version = header_.version_;
    if (version != 2 && version != 3) {
      const bool swapped = (version & 0xFFFF) == 0;
      return Error{
          ErrorCode::kUnsupported,
          swapped
              ? std::string("[gguf] the file is big-endian; only little-endian "
                            "ones are read; convert it anew")
              : StrCat("[gguf] the file is of version ", version,
                       "; versions 2 and 3 are read; convert it anew")};
    }
    STOWAGE_ASSIGN_OR_RETURN(tensor_count_,
                             Number<uint64_t>("the number of tensors"));
    STOWAGE_ASSIGN_OR_RETURN(value_count_,
                             Number<uint64_t>("the number of values"));
    STOWAGE_RETURN_IF_ERROR(CheckCount(tensor_count_, kMinTensor, "tensors"));
    return CheckCount(value_count_, kMinValue, "values of the metadata");
  }

  Result<GgufKind> Kind(const std::string& key) {
    STOWAGE_ASSIGN_OR_RETURN(const uint32_t kind,
                             Number<uint32_t>("the type of a value"));
    if (kind < kKinds.size()) return static_cast<GgufKind>(kind);
    return Fail("the value of ", Quoted(key), " is of type ", kind,
                "; types are 0 to ", kKinds.size() - 1);
  }

  Status ReadValue() {
    STOWAGE_ASSIGN_OR_RETURN(const std::string_view text,
                             Text("a key", kMaxNameBytes));
    const std::string key(text);
    GgufValue value;
    STOWAGE_ASSIGN_OR_RETURN(value.kind, Kind(key));
    value.is_array = value.kind == GgufKind::kArray;
    if (value.is_array) {
      STOWAGE_ASSIGN_OR_RETURN(value.kind, Kind(key));
      if (value.kind == GgufKind::kArray) {
        return Fail("the value of ", Quoted(key),
                    " is an array of arrays, which no reader takes");
      }
      STOWAGE_ASSIGN_OR_RETURN(value.count,
                               Number<uint64_t>("the length of an array"));
      STOWAGE_RETURN_IF_ERROR(CheckCount(value.count, InfoOf(value.kind).bytes,
                                         StrCat("elements of ", Quoted(key))));
    }
    value.begin = at_;
    if (value.kind == GgufKind::kText) {
      for (uint64_t i = 0; i < value.count; ++i) {
        STOWAGE_RETURN_IF_ERROR(
            Text("a text", std::numeric_limits<Bytes>::max()));
      }
    } else {
      // Products of counts that fit the file do not overflow.
      STOWAGE_RETURN_IF_ERROR(
          Take(static_cast<Bytes>(value.count) * InfoOf(value.kind).bytes,
               "a value"));
    }
    if (!header_.values_.emplace(key, value).second) {
      return Fail("two values have the key ", Quoted(key));
    }
    return {};
  }

  Status FindAlignment() {
    constexpr std::string_view kKey = "general.alignment";
    const GgufValue* const value = header_.Find(kKey);
    if (value == nullptr) return {};
    if (value->is_array || value->kind != GgufKind::kU32) {
      return Fail(Quoted(kKey), " is ", value->Describe(), "; expected u32");
    }
    alignment_ = ConvertedNumber<Bytes>(value->kind,
                                        header_.bytes_.data() + value->begin);
    if (alignment_ > 0 && (alignment_ & (alignment_ - 1)) == 0) return {};
    return Fail(Quoted(kKey), " is ", alignment_, "; expected a power of two");
  }

  Status ReadTensor() {
    GgufTensor tensor;
    STOWAGE_ASSIGN_OR_RETURN(const std::string_view name,
                             Text("the name of a tensor", kMaxNameBytes));
    tensor.name = name;
    STOWAGE_ASSIGN_OR_RETURN(const uint32_t rank,
                             Number<uint32_t>("the rank of a tensor"));
    if (rank > kMaxDimensions) {
      return Fail("tensor ", Quoted(tensor.name), " has ", rank,
                  " dimensions; at most ", kMaxDimensions, " are possible");
    }
    std::array<int64_t, kMaxDimensions> dims = {};
    std::optional<int64_t> numbers = 1;
    for (uint32_t i = rank; i-- > 0;) {
      STOWAGE_ASSIGN_OR_RETURN(const uint64_t size,
                               Number<uint64_t>("a dimension"));
      const bool counts =
          size > 0 &&
          size <= static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
      dims[i] = counts ? static_cast<int64_t>(size) : 0;
      if (numbers) numbers = CheckedMul(*numbers, dims[i]);
      if (!counts || !numbers) {
        return Fail("tensor ", Quoted(tensor.name), " has a dimension of ",
                    size,
                    "; all are at least 1, and 63 bits hold their product");
      }
    }
    tensor.shape = Shape(std::span<const int64_t>(dims.data(), rank));
    STOWAGE_ASSIGN_OR_RETURN(const uint32_t number,
                             Number<uint32_t>("the type of a tensor"));
    const auto known =
        std::ranges::find(kGgufTypes, number, &TypeNumber::number);
    if (known == std::end(kGgufTypes) || !known->type) {
      return Error{
          known == std::end(kGgufTypes) ? ErrorCode::kInvalidArgument
                                        : ErrorCode::kUnsupported,
          StrCat("[gguf] byte ", at_, ": tensor ", Quoted(tensor.name),
                 " is of type ", number,
                 known == std::end(kGgufTypes) ? ""
                                               : StrCat(" (", known->name, ")"),
                 "; those that are read are ", KnownTypes())};
    }
    tensor.type = *known->type;
    const BlockFormat& format = FormatOf(tensor.type);
    const int64_t row = rank == 0 ? 1 : tensor.shape.back();
    if (row % format.numbers != 0) {
      return Fail("tensor ", Quoted(tensor.name), " is ", format.name,
                  tensor.shape.ToString(),
                  "; its rows must be whole blocks of ", format.numbers,
                  " numbers");
    }
    const auto bytes = CheckedMul(*numbers / format.numbers, format.bytes);
    STOWAGE_ASSIGN_OR_RETURN(const uint64_t offset,
                             Number<uint64_t>("the offset of a tensor"));
    if (!bytes || *bytes > file_bytes_ ||
        offset > static_cast<uint64_t>(file_bytes_)) {
      return Fail("tensor ", Quoted(tensor.name), ", ", format.name,
                  tensor.shape.ToString(), ", at offset ", offset,
                  " cannot be in a file of ", file_bytes_,
                  " bytes; it is truncated or damaged");
    }
    tensor.bytes = *bytes;
    // PlaceTensors adds the start of the data, which is known after the table.
    tensor.begin = static_cast<Bytes>(offset);
    if (tensor.begin % alignment_ != 0) {
      return Fail("tensor ", Quoted(tensor.name), " begins at offset ", offset,
                  ", which is no multiple of the alignment, ", alignment_);
    }
    header_.tensors_.push_back(std::move(tensor));
    return {};
  }

  Status PlaceTensors() {
    std::vector<GgufTensor>& tensors = header_.tensors_;
    const Bytes data = AlignUp(at_, alignment_);
    std::unordered_set<std::string_view> names;
    for (GgufTensor& tensor : tensors) {
      tensor.begin += data;
      if (tensor.begin > file_bytes_ - tensor.bytes) {
        return Fail("tensor ", Quoted(tensor.name), " is bytes ", tensor.begin,
                    " to ", tensor.begin + tensor.bytes, " of a file of ",
                    file_bytes_, "; it is truncated or damaged");
      }
      if (!names.insert(tensor.name).second) {
        return Fail("two tensors are called ", Quoted(tensor.name));
      }
    }
    std::vector<size_t> order(tensors.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::sort(order, {}, [&](size_t i) { return tensors[i].begin; });
    for (size_t i = 1; i < order.size(); ++i) {
      const GgufTensor& before = tensors[order[i - 1]];
      const GgufTensor& after = tensors[order[i]];
      if (before.begin + before.bytes > after.begin) {
        return Fail("tensor ", Quoted(before.name), ", bytes ", before.begin,
                    " to ", before.begin + before.bytes, ", overlaps ",
                    Quoted(after.name), ", which begins at ", after.begin);
      }
    }
    return {};
  }

  const Bytes file_bytes_;
  const GgufHeader::ReadAt& read_;
  Bytes at_ = 0;
  Bytes alignment_ = kDefaultAlignment;
  uint64_t tensor_count_ = 0, value_count_ = 0;
  GgufHeader header_;
};

Result<GgufHeader> GgufHeader::Parse(Bytes file_bytes, const ReadAt& read) {
  return GgufParser(file_bytes, read).Parse();
}

const GgufValue* GgufHeader::Find(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

Result<const GgufValue*> GgufHeader::Get(std::string_view key, bool is_array,
                                         std::initializer_list<GgufKind> kinds,
                                         std::string_view expected) const {
  const GgufValue* const value = Find(key);
  if (value == nullptr) {
    return Error{ErrorCode::kNotFound,
                 StrCat("[gguf] there is no value ", Quoted(key))};
  }
  if (value->is_array == is_array &&
      std::ranges::find(kinds, value->kind) != kinds.end()) {
    return value;
  }
  return Error{ErrorCode::kInvalidArgument,
               StrCat("[gguf] the value ", Quoted(key), " is ",
                      value->Describe(), "; expected ", expected)};
}

namespace {
constexpr std::initializer_list<GgufKind> kInts = {
    GgufKind::kU8,  GgufKind::kI8,  GgufKind::kU16, GgufKind::kI16,
    GgufKind::kU32, GgufKind::kI32, GgufKind::kU64, GgufKind::kI64};
constexpr std::initializer_list<GgufKind> kReals = {GgufKind::kF32,
                                                    GgufKind::kF64};
constexpr std::initializer_list<GgufKind> kTexts = {GgufKind::kText};
}  // namespace

Result<std::vector<int64_t>> GgufHeader::AllInts(std::string_view key,
                                                 const GgufValue& value) const {
  const char* const from = bytes_.data() + value.begin;
  std::vector<int64_t> numbers = AllConverted<int64_t>(value, from);
  if (value.kind == GgufKind::kU64) {
    const auto large =
        std::ranges::find_if(numbers, [](int64_t n) { return n < 0; });
    if (large != numbers.end()) {
      return Error{
          ErrorCode::kInvalidArgument,
          StrCat("[gguf] the value ", Quoted(key), " has ",
                 static_cast<uint64_t>(*large), ", which 63 bits cannot hold")};
    }
  }
  return numbers;
}

Result<std::string_view> GgufHeader::Text(std::string_view key) const {
  STOWAGE_ASSIGN_OR_RETURN(const GgufValue* const value,
                           Get(key, false, kTexts, "a text"));
  return TextAt(bytes_.data() + value->begin);
}

Result<int64_t> GgufHeader::Int(std::string_view key) const {
  STOWAGE_ASSIGN_OR_RETURN(const GgufValue* const value,
                           Get(key, false, kInts, "an integer"));
  STOWAGE_ASSIGN_OR_RETURN(const std::vector<int64_t> number,
                           AllInts(key, *value));
  return number.front();
}

Result<double> GgufHeader::Real(std::string_view key) const {
  STOWAGE_ASSIGN_OR_RETURN(const GgufValue* const value,
                           Get(key, false, kReals, "a real number"));
  return ConvertedNumber<double>(value->kind, bytes_.data() + value->begin);
}

Result<bool> GgufHeader::Bool(std::string_view key) const {
  STOWAGE_ASSIGN_OR_RETURN(const GgufValue* const value,
                           Get(key, false, {GgufKind::kBool}, "a bool"));
  return bytes_[static_cast<size_t>(value->begin)] != 0;
}

Result<std::vector<std::string_view>> GgufHeader::Texts(
    std::string_view key) const {
  STOWAGE_ASSIGN_OR_RETURN(const GgufValue* const value,
                           Get(key, true, kTexts, "an array of texts"));
  std::vector<std::string_view> texts(value->count);
  const char* from = bytes_.data() + value->begin;
  for (std::string_view& text : texts) {
    text = TextAt(from);
    from = text.data() + text.size();
  }
  return texts;
}

Result<std::vector<int64_t>> GgufHeader::Ints(std::string_view key) const {
  STOWAGE_ASSIGN_OR_RETURN(const GgufValue* const value,
                           Get(key, true, kInts, "an array of integers"));
  return AllInts(key, *value);
}

Result<std::vector<double>> GgufHeader::Reals(std::string_view key) const {
  STOWAGE_ASSIGN_OR_RETURN(const GgufValue* const value,
                           Get(key, true, kReals, "an array of real numbers"));
  return AllConverted<double>(*value, bytes_.data() + value->begin);
}

std::string_view GgufHeader::BytesOf(const GgufValue& value) const {
  const char* const from = bytes_.data() + value.begin;
  if (value.kind != GgufKind::kText) {
    return {from, value.count * static_cast<size_t>(InfoOf(value.kind).bytes)};
  }
  const char* end = from;
  for (uint64_t i = 0; i < value.count; ++i) {
    const std::string_view text = TextAt(end);
    end = text.data() + text.size();
  }
  return {from, static_cast<size_t>(end - from)};
}

Result<bool> IsGguf(const InputFile& file) {
  uint32_t mark = 0;
  if (file.size() < static_cast<Bytes>(sizeof(mark))) return false;
  STOWAGE_RETURN_IF_ERROR(
      file.ReadAt(0, std::as_writable_bytes(std::span(&mark, 1))));
  return mark == kGgufMagic;
}

Result<GgufHeader> ReadGgufHeader(const InputFile& file) {
  return GgufHeader::Parse(file.size(),
                           [&](Bytes offset, std::span<std::byte> to) {
                             return file.ReadAt(offset, to);
                           });
}

uint32_t GgufNumberOf(WeightType type) {
  const auto known = std::ranges::find(kGgufTypes, type, &TypeNumber::type);
  STOWAGE_CHECK(known != std::end(kGgufTypes));
  return known->number;
}

void Dequantize(WeightType type, std::span<const std::byte> bytes,
                std::span<float> to) {
  STOWAGE_CHECK(BytesOf(type, std::ssize(to)) == std::ssize(bytes));
  const auto* from = reinterpret_cast<const uint8_t*>(bytes.data());
  float* numbers = to.data();
  float* const end = numbers + to.size();
  const auto put = [&numbers](int i, float number) { numbers[i] = number; };
  switch (type) {
#define STOWAGE_WEIGHT_TYPE(name, count, size)                   \
  case WeightType::k##name:                                      \
    for (; numbers != end; numbers += (count), from += (size)) { \
      math::name(from, put);                                     \
    }                                                            \
    return;
#include "ir/weight_types.def"
  }
}

namespace {

constexpr uint32_t kVersion = 3;
constexpr int kMaxGgufRank = 4;
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
    if (tensor.shape.rank() > kMaxGgufRank) {
      return InvalidArgumentError("[gguf] tensor ", Quoted(tensor.name), " is ",
                                  tensor.shape.ToString(), "; at most ",
                                  kMaxGgufRank, " dimensions are possible");
    }
    if (!names.insert(tensor.name).second) {
      return InvalidArgumentError("[gguf] two tensors are called ",
                                  Quoted(tensor.name));
    }
  }
  return {};
}

// The file up to the tensors' bytes.
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
  // In the order of the file.
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
