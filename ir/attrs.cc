#include "ir/attrs.h"

#include "base/result.h"

namespace stowage {

Attrs::Attrs() = default;
Attrs::Attrs(std::initializer_list<Entry> entries) : entries_(entries) {}
Attrs::Attrs(const Attrs& other) = default;
Attrs::Attrs(Attrs&& other) noexcept = default;
Attrs& Attrs::operator=(const Attrs& other) = default;
Attrs& Attrs::operator=(Attrs&& other) noexcept = default;
Attrs::~Attrs() = default;

void Attrs::Set(std::string_view name, AttrValue value) {
  for (Entry& entry : entries_) {
    if (entry.first == name) {
      entry.second = std::move(value);
      return;
    }
  }
  entries_.emplace_back(std::string(name), std::move(value));
}

const AttrValue* Attrs::Find(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return &entry.second;
  }
  return nullptr;
}

namespace {
template <typename T>
const T& Get(const Attrs& attrs, std::string_view name) {
  const AttrValue* value = attrs.Find(name);
  STOWAGE_CHECK(value != nullptr);
  const T* typed = std::get_if<T>(value);
  STOWAGE_CHECK(typed != nullptr);
  return *typed;
}
}  // namespace

int64_t Attrs::Int(std::string_view name) const {
  return Get<int64_t>(*this, name);
}
double Attrs::Float(std::string_view name) const {
  return Get<double>(*this, name);
}
double Attrs::FloatOr(std::string_view name, double otherwise) const {
  return Find(name) == nullptr ? otherwise : Float(name);
}
DType Attrs::Type(std::string_view name) const {
  return Get<DType>(*this, name);
}
const std::vector<int64_t>& Attrs::Ints(std::string_view name) const {
  return Get<std::vector<int64_t>>(*this, name);
}
const std::string& Attrs::Data(std::string_view name) const {
  return Get<std::string>(*this, name);
}
const SubGraphs& Attrs::Graphs(std::string_view name) const {
  return Get<SubGraphs>(*this, name);
}

}  // namespace stowage
