#ifndef STOWAGE_IR_ATTRS_H_
#define STOWAGE_IR_ATTRS_H_

// Stores the attributes of a node, which are its static arguments: axes, flags, constants, the
// bodies of a loop. Attributes are a short list of named values in a fixed order, so printing,
// parsing and comparing them needs no code per op.
//
//   Attrs attrs{{"axis", int64_t{1}}, {"keep", int64_t{0}}};
//   attrs.Int("axis") == 1

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "ir/tensor_type.h"

namespace stowage {

class Graph;  // ir/graph.h

/// The graphs inside a node (ir/bodies.h). They are immutable and shared by all copies of the
/// node.
using SubGraphs = std::vector<std::shared_ptr<const Graph>>;

/// The value of an attribute. The alternatives hold integers and flags, reals, element types,
/// lists of integers, raw bytes, and graphs.
using AttrValue = std::variant<int64_t, double, DType, std::vector<int64_t>,
                               std::string, SubGraphs>;

class Attrs {
 public:
  using Entry = std::pair<std::string, AttrValue>;

  // Defined in attrs.cc, so that they are compiled only once.
  Attrs();
  Attrs(std::initializer_list<Entry> entries);
  Attrs(const Attrs& other);
  Attrs(Attrs&& other) noexcept;
  Attrs& operator=(const Attrs& other);
  Attrs& operator=(Attrs&& other) noexcept;
  ~Attrs();

  /// Sets the attribute `name`, which is appended if it does not exist.
  void Set(std::string_view name, AttrValue value);
  /// Returns the value of the attribute `name`, or null. Linear in the length of the short list.
  const AttrValue* Find(std::string_view name) const;
  /// Returns the real attribute `name`, or `otherwise` if it does not exist.
  double FloatOr(std::string_view name, double otherwise) const;

  // Typed access. These functions abort if the attribute does not exist or has another type,
  // which is a bug in the op. Shape rules check the attributes of parsed graphs first.
  int64_t Int(std::string_view name) const;
  double Float(std::string_view name) const;
  DType Type(std::string_view name) const;
  const std::vector<int64_t>& Ints(std::string_view name) const;
  const std::string& Data(std::string_view name) const;
  const SubGraphs& Graphs(std::string_view name) const;

  const std::vector<Entry>& entries() const { return entries_; }
  /// Returns whether names and values are equal and in the same order. Reals are compared by
  /// their bits, so NaN equals itself, and -0 differs from 0. Graphs are compared with Equal.
  /// Defined in graph.cc.
  friend bool operator==(const Attrs& a, const Attrs& b);

 private:
  std::vector<Entry> entries_;
};

}  // namespace stowage

#endif  // STOWAGE_IR_ATTRS_H_
