#include "runtime/values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <functional>
#include <numbers>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/result.h"
#include "base/strings.h"
#include "ir/graph.h"
#include "ir/tensor_type.h"
#include "math/random.h"
#include "math/small_floats.h"

namespace stowage {

namespace {

constexpr Bytes kPart = 1 << 20;  // handed on at a time

// Two uniform numbers in (0, 1), of 53 bits each, from a counter's four words.
struct UniformPair {
  double first, second;
};

UniformPair Uniforms(uint64_t seed, uint64_t stream, uint64_t index) {
  const math::Philox4 counter{
      {static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32),
       static_cast<uint32_t>(stream), static_cast<uint32_t>(stream >> 32)}};
  const math::PhiloxKey key{
      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}};
  const math::Philox4 words = math::Philox4x32(counter, key);
  const auto uniform = [](uint32_t high, uint32_t low) {
    const uint64_t bits = (uint64_t{high} << 32 | low) >> 11;
    return (static_cast<double>(bits) + 0.5) * 0x1p-53;
  };
  return {uniform(words.word[0], words.word[1]),
          uniform(words.word[2], words.word[3])};
}

// A standard normal number (Box & Muller 1958).
double Normal(uint64_t seed, uint64_t stream, uint64_t index) {
  const UniformPair u = Uniforms(seed, stream, index);
  return std::sqrt(-2 * std::log(u.first)) *
         std::cos(2 * std::numbers::pi * u.second);
}

// A normal number truncated at two deviations: the first draw within them. Each draw is
// rejected with probability 4.6 %. The draw's number is in counter bits above every index.
double TruncatedNormal(uint64_t seed, uint64_t stream, uint64_t index) {
  constexpr uint64_t kDraws = 32;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const double x = Normal(seed, stream, index | draw << 58);
    if (std::abs(x) <= 2) return x;
  }
  return 0;
}

double Element(const Init& init, uint64_t seed, uint64_t stream,
               uint64_t index) {
  switch (init.kind) {
    case Init::Kind::kZeros:
      return 0;
    case Init::Kind::kOnes:
      return 1;
    case Init::Kind::kConstant:
      return init.scale;
    case Init::Kind::kUniform:
      return init.scale * (2 * Uniforms(seed, stream, index).first - 1);
    case Init::Kind::kNormal:
      return init.scale * Normal(seed, stream, index);
    case Init::Kind::kTruncatedNormal:
      return init.scale * TruncatedNormal(seed, stream, index);
    case Init::Kind::kOrthogonal:
      break;  // of all elements at once
  }
  STOWAGE_CHECK(false);
}

// An orthogonal tensor, row-major: normal vectors, orthogonalized by Gram-Schmidt twice,
// since one pass leaves rounding errors that grow with the number of vectors. All directions
// are equally likely.
std::vector<double> Orthogonal(const Shape& shape, double gain, uint64_t seed,
                               uint64_t stream) {
  const int64_t rows = shape[0];
  const int64_t columns = shape.num_elements() / rows;
  const bool by_rows = rows <= columns;
  const auto count = static_cast<size_t>(by_rows ? rows : columns);
  const auto length = static_cast<size_t>(by_rows ? columns : rows);
  std::vector<double> vectors(count * length);  // one after the other
  for (size_t i = 0; i < vectors.size(); ++i) {
    vectors[i] = Normal(seed, stream, i);
  }
  const auto dot = [&](const double* a, const double* b) {
    double sum = 0;
    for (size_t k = 0; k < length; ++k) sum += a[k] * b[k];
    return sum;
  };
  for (size_t i = 0; i < count; ++i) {
    double* const v = vectors.data() + i * length;
    for (int pass = 0; pass < 2; ++pass) {
      for (size_t j = 0; j < i; ++j) {
        const double* const u = vectors.data() + j * length;
        const double part = dot(v, u);
        for (size_t k = 0; k < length; ++k) v[k] -= part * u[k];
      }
      const double norm = std::sqrt(dot(v, v));
      for (size_t k = 0; k < length; ++k) v[k] /= norm;
    }
  }
  std::vector<double> elements(vectors.size());
  for (size_t i = 0; i < count; ++i) {
    for (size_t k = 0; k < length; ++k) {
      elements[by_rows ? i * length + k : k * count + i] =
          gain * vectors[i * length + k];
    }
  }
  return elements;
}

template <typename T>
void Store(std::byte* at, T value) {
  std::memcpy(at, &value, sizeof(value));
}

void StoreAs(DType dtype, double value, std::byte* at) {
  switch (dtype) {
    case DType::kF32:
      return Store(at, static_cast<float>(value));
    case DType::kF64:
      return Store(at, value);
    case DType::kF16:
      return Store(at, math::FloatToHalf(static_cast<float>(value)));
    case DType::kBF16:
      return Store(at, math::FloatToBFloat16(static_cast<float>(value)));
    case DType::kI16:
      return Store(at, static_cast<int16_t>(value));
    case DType::kI32:
      return Store(at, static_cast<int32_t>(value));
    case DType::kI64:
      return Store(at, static_cast<int64_t>(value));
    case DType::kU8:
    case DType::kBool:
      return Store(at, static_cast<uint8_t>(value != 0));
  }
}

}  // namespace

void MakeInitialValues(
    const ValueInfo& value, uint64_t seed,
    const std::function<void(Bytes begin, std::span<const std::byte> bytes)>&
        take) {
  Fnv1a stream;
  stream.Update(value.name);
  const DType dtype = value.type.dtype;
  const Bytes element = SizeOf(dtype);
  std::vector<std::byte> bytes;
  if (value.init.kind == Init::Kind::kOrthogonal) {
    bytes.resize(static_cast<size_t>(value.type.bytes()));
    std::byte* at = bytes.data();
    for (const double x : Orthogonal(value.type.shape, value.init.scale, seed,
                                     stream.digest())) {
      StoreAs(dtype, x, at);
      at += element;
    }
    take(0, bytes);
    return;
  }
  const int64_t count = value.type.shape.num_elements();
  const int64_t most = kPart / element;
  for (int64_t first = 0; first < count; first += most) {
    const int64_t part = std::min(most, count - first);
    bytes.resize(static_cast<size_t>(part * element));
    for (int64_t i = 0; i < part; ++i) {
      StoreAs(dtype,
              Element(value.init, seed, stream.digest(),
                      static_cast<uint64_t>(first + i)),
              bytes.data() + i * element);
    }
    take(first * element, bytes);
  }
}

std::vector<std::byte> InitialValues(const ValueInfo& value, uint64_t seed) {
  std::vector<std::byte> all;
  all.reserve(static_cast<size_t>(value.type.bytes()));
  MakeInitialValues(value, seed, [&](Bytes, std::span<const std::byte> bytes) {
    all.insert(all.end(), bytes.begin(), bytes.end());
  });
  return all;
}

std::optional<int64_t> BlockOf(const RankValues& values, const Graph& step,
                               const ValueInfo& value) {
  if (values.own_name == nullptr) return std::nullopt;
  const std::optional<ValueId> id = step.Find(values.own_name(value.name));
  if (!id) return std::nullopt;
  const ValueInfo& block = step.value(*id);
  if (block.role != value.role) return std::nullopt;
  return block.type.shape.num_elements();
}

std::vector<ValueId> PersistentValues(const Graph& graph) {
  std::vector<ValueId> values = graph.Leaves(Role::kParam);
  for (const ValueId id : graph.Leaves(Role::kState)) values.push_back(id);
  return values;
}

Status InParts(Bytes bytes,
               const std::function<Status(Bytes, std::span<std::byte>)>& use) {
  std::vector<std::byte> room(static_cast<size_t>(std::min(bytes, kPartBytes)));
  for (Bytes begin = 0; begin < bytes; begin += kPartBytes) {
    const Bytes size = std::min(kPartBytes, bytes - begin);
    STOWAGE_RETURN_IF_ERROR(
        use(begin, std::span(room).first(static_cast<size_t>(size))));
  }
  return {};
}

Status ReadInParts(
    const Runner& runner, const ValueInfo& value,
    const std::function<Status(Bytes, std::span<const std::byte>)>& take) {
  return InParts(value.type.bytes(),
                 [&](Bytes begin, std::span<std::byte> part) -> Status {
                   STOWAGE_RETURN_IF_ERROR(runner.ReadPart(
                       value.name, value.type.dtype, begin, part));
                   return take(begin, part);
                 });
}

namespace {

// Converts through a buffer of a few thousand elements of T.
template <typename T, typename Convert>
Status WriteAs(Runner& runner, std::string_view name, DType dtype,
               int64_t first, std::span<const float> numbers, Convert convert) {
  std::array<T, 4096> part;
  while (!numbers.empty()) {
    const size_t count = std::min(numbers.size(), part.size());
    std::ranges::transform(numbers.first(count), part.begin(), convert);
    STOWAGE_RETURN_IF_ERROR(
        runner.WritePart(name, dtype, first * SizeOf(dtype),
                         std::as_bytes(std::span(part).first(count))));
    first += static_cast<int64_t>(count);
    numbers = numbers.subspan(count);
  }
  return {};
}

// Converts from elements of T.
template <typename T, typename Convert>
Result<std::vector<float>> ReadAs(const Runner& runner, std::string_view name,
                                  const TensorType& type, Convert convert) {
  std::vector<T> elements(static_cast<size_t>(type.shape.num_elements()));
  STOWAGE_RETURN_IF_ERROR(runner.ReadBytes(
      name, type.dtype, std::as_writable_bytes(std::span(elements))));
  std::vector<float> numbers(elements.size());
  std::ranges::transform(elements, numbers.begin(), convert);
  return numbers;
}

// The dtype of the value; f32 if there is none, which is an error later.
TensorType TypeOf(const Runner& runner, std::string_view name) {
  const std::optional<ValueId> id = runner.graph().Find(name);
  return id ? runner.graph().value(*id).type : TensorType{DType::kF32, {}};
}

Error NoFloats(std::string_view name, DType dtype) {
  return {ErrorCode::kInvalidArgument,
          StrCat("[session] ", Quoted(name), " is of ", DTypeName(dtype),
                 ", no type of floats")};
}

}  // namespace

Status WriteFloats(Runner& runner, std::string_view name, int64_t first,
                   std::span<const float> numbers) {
  const DType dtype = TypeOf(runner, name).dtype;
  switch (dtype) {
    case DType::kF32:
      return runner.WritePart(name, dtype, first * SizeOf(dtype),
                              std::as_bytes(numbers));
    case DType::kF64:
      return WriteAs<double>(runner, name, dtype, first, numbers,
                             [](float x) { return double{x}; });
    case DType::kF16:
      return WriteAs<uint16_t>(runner, name, dtype, first, numbers,
                               math::FloatToHalf);
    case DType::kBF16:
      return WriteAs<uint16_t>(runner, name, dtype, first, numbers,
                               math::FloatToBFloat16);
    default:
      return NoFloats(name, dtype);
  }
}

Result<std::vector<float>> ReadFloats(const Runner& runner,
                                      std::string_view name) {
  const TensorType type = TypeOf(runner, name);
  switch (type.dtype) {
    case DType::kF32:
      return ReadAs<float>(runner, name, type, std::identity());
    case DType::kF64:
      return ReadAs<double>(runner, name, type,
                            [](double x) { return static_cast<float>(x); });
    case DType::kF16:
      return ReadAs<uint16_t>(runner, name, type, math::HalfToFloat);
    case DType::kBF16:
      return ReadAs<uint16_t>(runner, name, type, math::BFloat16ToFloat);
    default:
      return NoFloats(name, type.dtype);
  }
}

namespace {

// A float is finite unless all bits of its exponent are set.
template <typename Bits>
std::optional<int64_t> Find(std::span<const std::byte> data, Bits exponent) {
  const size_t size = data.size() / sizeof(Bits);
  for (size_t i = 0; i < size; ++i) {
    Bits bits;
    std::memcpy(&bits, data.data() + i * sizeof(Bits), sizeof(Bits));
    if ((bits & exponent) == exponent) return static_cast<int64_t>(i);
  }
  return std::nullopt;
}

template <typename T>
T At(std::span<const std::byte> data, int64_t index) {
  T value;
  std::memcpy(&value, data.data() + static_cast<size_t>(index) * sizeof(T),
              sizeof(T));
  return value;
}

}  // namespace

std::optional<int64_t> FindNonFinite(DType dtype,
                                     std::span<const std::byte> data) {
  switch (dtype) {
    case DType::kF32:
      return Find<uint32_t>(data, 0x7F800000);
    case DType::kF64:
      return Find<uint64_t>(data, 0x7FF0000000000000);
    case DType::kF16:
      return Find<uint16_t>(data, 0x7C00);
    case DType::kBF16:
      return Find<uint16_t>(data, 0x7F80);
    case DType::kI16:
    case DType::kI32:
    case DType::kI64:
    case DType::kU8:
    case DType::kBool:
      break;
  }
  return std::nullopt;
}

std::string FloatText(DType dtype, std::span<const std::byte> data,
                      int64_t index) {
  switch (dtype) {
    case DType::kF64:
      return StrCat(At<double>(data, index));
    case DType::kF16:
      return StrCat(math::HalfToFloat(At<uint16_t>(data, index)));
    case DType::kBF16:
      return StrCat(math::BFloat16ToFloat(At<uint16_t>(data, index)));
    default:
      return StrCat(At<float>(data, index));
  }
}

Status AllOrNone(Runner& runner, const std::vector<std::string>& names,
                 const std::function<Status()>& write) {
  const Status written = write();
  if (written.ok()) return {};
  for (const std::string& name : names) runner.Forget(name);
  return Error{
      written.error().code,
      StrCat(written.error().message,
             "; some values were written before that, so the ", names.size(),
             " params and states that they are of have none now")};
}

}  // namespace stowage
