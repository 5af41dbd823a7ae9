#ifndef STOWAGE_TEXT_TRIE_H_
#define STOWAGE_TEXT_TRIE_H_

// The tokens that a text begins with, byte by byte.
//
//   Trie trie({{"a", 0}, {"ab", 1}});
//   uint32_t node = trie.Child(Trie::kRoot, 'a');  // trie.Id(node) == 0
//   node = trie.Child(node, 'b');                  // trie.Id(node) == 1

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace stowage::text {

class Trie {
 public:
  static constexpr uint32_t kRoot = 0;
  static constexpr uint32_t kNone = ~uint32_t{0};
  using Entry = std::pair<std::string_view, int32_t>;

  Trie() : Trie(std::vector<Entry>()) {}
  /// Texts and their ids; of equal texts the last one's. O(n log n) in the number of
  /// texts, linear in their bytes.
  explicit Trie(std::vector<Entry> entries);

  /// The node behind that byte, or kNone. Logarithmic in the bytes that there are.
  uint32_t Child(uint32_t node, unsigned char byte) const;
  /// The id of the text that ends here; -1: none does.
  int32_t Id(uint32_t node) const { return nodes_[node].id; }
  /// The id of that text; -1: it is none.
  int32_t Find(std::string_view text) const;

 private:
  // Its children stand side by side, in the order of their bytes.
  struct Node {
    uint32_t children = 0;
    uint16_t count = 0;
    unsigned char byte = 0;
    int32_t id = -1;
  };
  std::vector<Node> nodes_;
};

}  // namespace stowage::text

#endif  // STOWAGE_TEXT_TRIE_H_
