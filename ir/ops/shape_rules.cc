#include "ir/ops/shape_rules.h"

#include <cmath>
#include <optional>
#include <variant>

#include "base/bytes.h"
#include "base/strings.h"
#include "ir/attrs.h"
#include "ir/element_groups.h"
#include "ir/weight_type.h"

namespace stowage::op_defs {
namespace {

// The words for AttrValue's alternatives, in its order.
constexpr std::string_view kKindNames[] = {
    "an integer",         "a real number", "an element type",
    "a list of integers", "bytes",         "graphs"};

size_t VariantIndex(AttrKind kind) {
  switch (kind) {
    case AttrKind::kInt:
    case AttrKind::kFlag:
      return 0;
    case AttrKind::kReal:
      return 1;
    case AttrKind::kDType:
      return 2;
    case AttrKind::kInts:
      return 3;
    case AttrKind::kData:
      return 4;
    case AttrKind::kGraphs:
      return 5;
  }
  return 0;
}

bool Contains(DTypes set, DType dtype) {
  switch (set) {
    case DTypes::kFloat:
      return IsFloat(dtype);
    case DTypes::kNumeric:
      return dtype != DType::kBool;
    case DTypes::kIndex:
      return IsIndex(dtype);
    case DTypes::kBool:
      return dtype == DType::kBool;
    case DTypes::kAny:
      return true;
  }
  return false;
}

std::string_view Words(DTypes set) {
  switch (set) {
    case DTypes::kFloat:
      return "f32, f64, f16 or bf16";
    case DTypes::kNumeric:
      return "any element type but bool";
    case DTypes::kIndex:
      return "i32 or i64";
    case DTypes::kBool:
      return "bool";
    case DTypes::kAny:
      return "any element type";
  }
  return "";
}

}  // namespace

namespace {

Status CheckAllAttrs(const OpArgs& args, std::span<const AttrSpec> specs) {
  for (const AttrSpec& spec : specs) {
    const std::string name = StrCat("attribute ", Quoted(spec.name));
    const size_t wanted = VariantIndex(spec.kind);
    const AttrValue* value = args.attrs.Find(spec.name);
    if (value == nullptr) {
      return args.Fail(
          StrCat(name, " is missing; expected ", kKindNames[wanted]));
    }
    if (value->index() != wanted) {
      return args.Fail(StrCat(name, " is ", kKindNames[value->index()],
                              "; expected ", kKindNames[wanted]));
    }
    if (spec.kind == AttrKind::kFlag) {
      const int64_t flag = *std::get_if<int64_t>(value);
      if (flag != 0 && flag != 1) {
        return args.Fail(StrCat(name, " is ", flag, "; expected 0 or 1"));
      }
    }
  }
  const auto& entries = args.attrs.entries();
  for (size_t i = 0; i < entries.size(); ++i) {
    bool known = false;
    for (const AttrSpec& spec : specs) known |= spec.name == entries[i].first;
    if (!known) {
      return args.Fail(StrCat("takes no attribute ", Quoted(entries[i].first)));
    }
    for (size_t j = 0; j < i; ++j) {
      if (entries[j].first != entries[i].first) continue;
      return args.Fail(StrCat("attribute ", Quoted(entries[i].first),
                              " is given twice; expected once"));
    }
  }
  return {};
}

}  // namespace

Status CheckAttrs(const OpArgs& args, std::initializer_list<AttrSpec> specs) {
  return CheckAllAttrs(args, std::span(specs.begin(), specs.size()));
}

Status CheckAttrsAndSoftcap(const OpArgs& args, std::vector<AttrSpec> specs) {
  if (args.attrs.Find("softcap") == nullptr) return CheckAllAttrs(args, specs);
  specs.push_back({"softcap", AttrKind::kReal});
  STOWAGE_RETURN_IF_ERROR(CheckAllAttrs(args, specs));
  return CheckPositive(args, "softcap");
}

Status CheckReal(const OpArgs& args, std::string_view name, bool holds,
                 std::string_view expected) {
  if (holds) return {};
  return args.Fail(
      StrCat(name, " is ", args.attrs.Float(name), "; expected ", expected));
}

Status CheckPositive(const OpArgs& args, std::string_view name) {
  const double value = args.attrs.Float(name);
  return CheckReal(args, name, std::isfinite(value) && value > 0,
                   "a finite number above 0");
}

Status CheckNotNegative(const OpArgs& args, std::string_view name) {
  const double value = args.attrs.Float(name);
  return CheckReal(args, name, std::isfinite(value) && value >= 0,
                   "a finite number of at least 0");
}

Status CheckFraction(const OpArgs& args, std::string_view name) {
  const double value = args.attrs.Float(name);
  return CheckReal(args, name, value >= 0 && value < 1,
                   "at least 0 and below 1");
}

Status CheckBounds(const OpArgs& args) {
  const double max = args.attrs.Float("max");
  return CheckReal(args, "min", args.attrs.Float("min") <= max,
                   StrCat("at most max, which is ", max));
}

std::string Operand(const OpArgs& args, int i, std::string_view label) {
  return StrCat(label, " ", args.Describe(i));
}

Status CheckDType(const OpArgs& args, int i, std::string_view label,
                  DTypes allowed) {
  if (Contains(allowed, args.type(i).dtype)) return {};
  return args.Fail(
      StrCat(Operand(args, i, label), "; expected ", Words(allowed)));
}

Status CheckRankAtLeast(const OpArgs& args, int i, std::string_view label,
                        int rank) {
  if (args.shape(i).rank() >= rank) return {};
  return args.Fail(
      StrCat(Operand(args, i, label), "; expected rank at least ", rank));
}

Status CheckType(const OpArgs& args, int i, std::string_view label,
                 const TensorType& type, std::string_view reason) {
  if (args.type(i) == type) return {};
  return args.Fail(StrCat(Operand(args, i, label), "; expected ",
                          type.ToString(), ", ", reason));
}

Status CheckSameDType(const OpArgs& args, int i, std::string_view label, int j,
                      std::string_view other) {
  if (args.type(i).dtype == args.type(j).dtype) return {};
  return args.Fail(StrCat("element types differ: ", Operand(args, i, label),
                          ", ", Operand(args, j, other),
                          "; expected one element type: cast one of them"));
}

Status CheckSameType(const OpArgs& args, int i, std::string_view label, int j,
                     std::string_view other) {
  STOWAGE_RETURN_IF_ERROR(CheckSameDType(args, i, label, j, other));
  if (args.shape(i) == args.shape(j)) return {};
  return args.Fail(StrCat("shapes differ: ", Operand(args, i, label), ", ",
                          Operand(args, j, other), "; expected one shape"));
}

Status CheckAxis(const OpArgs& args, int i, std::string_view label) {
  const int64_t axis = args.attrs.Int("axis");
  const int rank = args.shape(i).rank();
  if (axis >= 0 && axis < rank) return {};
  return args.Fail(StrCat(
      "axis ", axis, " is out of range: ", Operand(args, i, label),
      "; expected ",
      rank == 0 ? std::string("rank at least 1") : StrCat("0 to ", rank - 1)));
}

Result<Shape> CheckBlocks(const OpArgs& args, int i, std::string_view label) {
  const int64_t blocks = args.attrs.Int("blocks");
  if (blocks < 0 || blocks >= kWeightTypes) {
    return args.Fail(StrCat("blocks is ", blocks, "; expected 0 to ",
                            kWeightTypes - 1, ", a type of weights"));
  }
  const auto type = static_cast<WeightType>(blocks);
  const TensorType& bytes = args.type(i);
  const std::optional<int64_t> numbers =
      bytes.dtype == DType::kU8 && bytes.shape.rank() == 2
          ? NumbersOf(type, bytes.shape[1])
          : std::nullopt;
  if (numbers) return Shape{bytes.shape[0], *numbers};
  return args.Fail(StrCat(Operand(args, i, label),
                          "; expected u8(rows, bytes of a row), in blocks of ",
                          FormatOf(type).bytes, " bytes of ",
                          FormatOf(type).name));
}

Result<Shape> ShapeAttr(const OpArgs& args) {
  const Shape shape{std::span<const int64_t>(args.attrs.Ints("shape"))};
  if (shape.rank() > kMaxRank) {
    return args.Fail(StrCat("shape ", shape.ToString(), " has rank ",
                            shape.rank(), "; at most ", kMaxRank,
                            " is supported"));
  }
  for (const int64_t dim : shape) {
    if (dim >= 1) continue;
    return args.Fail(StrCat("shape ", shape.ToString(), " has dimension ", dim,
                            "; expected at least 1"));
  }
  if (!shape.CheckedNumElements()) {
    return args.Fail(StrCat("shape ", shape.ToString(),
                            " is too large; its bytes must fit 64 bits"));
  }
  return shape;
}

TypesResult Typed(const OpArgs& args, std::vector<TensorType> types) {
  for (const TensorType& type : types) {
    if (type.shape.rank() > kMaxRank) {
      return args.Fail(StrCat("result ", type.ToString(), " would have rank ",
                              type.shape.rank(), "; at most ", kMaxRank,
                              " is supported"));
    }
    const auto elements = type.shape.CheckedNumElements();
    if (!elements || !CheckedMul(*elements, SizeOf(type.dtype))) {
      return args.Fail(StrCat("result ", type.ToString(),
                              " is too large; its bytes must fit 64 bits"));
    }
  }
  return types;
}

DType StatisticsType(DType dtype) {
  return dtype == DType::kF64 ? DType::kF64 : DType::kF32;
}

Status CheckPartsAttr(const OpArgs& args) {
  if (args.attrs.Find("parts") == nullptr) return CheckAttrs(args, {});
  return CheckAttrs(args, {{"parts", AttrKind::kInt}});
}

Result<TensorType> ParamSumsType(const OpArgs& args) {
  const int64_t n = args.shape(0).back();
  const std::optional<int64_t> parts = PartsOf(args.attrs);
  if (!parts) return TensorType{args.type(0).dtype, {n}};
  const int64_t rows = args.shape(0).num_elements() / n;
  if (*parts < 1 || *parts > rows) {
    return args.Fail(StrCat("parts is ", *parts, "; expected 1 to ", rows,
                            ", the rows of ", Operand(args, 0, "x")));
  }
  return TensorType{StatisticsType(args.type(0).dtype), {*parts, n}};
}

Shape LeadingDims(const Shape& shape) {
  return Shape(shape.span().first(static_cast<size_t>(shape.rank() - 1)));
}

double Elements(const TensorType& type) {
  return static_cast<double>(type.shape.num_elements());
}

}  // namespace stowage::op_defs
