#include "gpu/product_algorithms.h"

#include <algorithm>
#include <tuple>

namespace stowage::gpu {
namespace {

constexpr ChoicesKind kProductKind = {
    .room = "gpu",
    .name = "products",
    .key_numbers = std::tuple_size_v<ProductKey>,
    .choice_words = std::tuple_size_v<ProductAlgorithm>,
    .says = "by which algorithms products are computed"};

AutotuneCache::Key ProductKeyOf(const ProductKey& key) {
  return {key.begin(), key.end()};
}

ProductAlgorithm AlgorithmOf(const AutotuneCache::Choice& choice) {
  ProductAlgorithm algorithm = {};
  std::ranges::copy(choice, algorithm.begin());
  return algorithm;
}

}  // namespace

Result<ProductAlgorithms> ProductAlgorithms::Open(const std::string& folder,
                                                  std::string_view device,
                                                  std::string_view library) {
  STOWAGE_ASSIGN_OR_RETURN(
      AutotuneCache kept,
      AutotuneCache::Open(folder, kProductKind, {device, library}));
  return ProductAlgorithms(std::move(kept));
}

std::optional<ProductAlgorithm> ProductAlgorithms::Find(
    const ProductKey& key) const {
  const AutotuneCache::Choice* const found = kept_.Find(ProductKeyOf(key));
  if (found == nullptr) return std::nullopt;
  return AlgorithmOf(*found);
}

Result<ProductAlgorithm> ProductAlgorithms::Keep(
    const ProductKey& key, const ProductAlgorithm& algorithm) {
  STOWAGE_ASSIGN_OR_RETURN(
      const AutotuneCache::Choice kept,
      kept_.Keep(ProductKeyOf(key), {algorithm.begin(), algorithm.end()}));
  return AlgorithmOf(kept);
}

}  // namespace stowage::gpu
