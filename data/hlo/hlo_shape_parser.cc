// `f32[2,<=3]{1,0:T(8,128)}`, `(f32[2], token[])`. What stands behind a ':' in
// a layout is kept as text. Element counts and byte sizes are checked to fit 63
// bits here, once, so that nothing after the parser checks them again.
#include "data/hlo/hlo_shape_parser.h"

#include <algorithm>

namespace reprise {
namespace {

constexpr int kMaxTupleNesting = 100;
/// Longest spelling of a primitive type is f8e4m3b11fnuz.
constexpr size_t kMaxTypeName = 16;

bool is_type_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

bool parse_dimension(HloLexer* lexer, Shape* shape) {
  if (lexer->take("?")) {
    return lexer->error(ErrorKind::kUnsupported, lexer->position() - 1,
                        "unbounded dimension `?` (a bound, `<=N`, is needed)");
  }
  const bool bounded = lexer->take("<=");
  const size_t begin = lexer->position();
  int64_t extent = 0;
  if (!lexer->expect_integer("a dimension", &extent)) return false;
  if (extent < 0) {
    return lexer->error(ErrorKind::kInvalid, begin,
                        fmt::format("dimension {} is negative", extent));
  }
  shape->dimensions.push_back(extent);
  shape->dynamic.push_back(bounded);
  return true;
}

/// Overflow is checked with zeros counted as ones, a token's lack of bits too,
/// so that any order of multiplying is safe.
bool check_size(HloLexer* lexer, size_t begin, const Shape& shape) {
  int64_t count = std::max(primitive_type_bits(shape.type), 1);
  bool fits = true;
  for (const int64_t extent : shape.dimensions) {
    if (extent > 0)
      fits = fits && !__builtin_mul_overflow(count, extent, &count);
  }
  if (fits) return true;
  return lexer->error(ErrorKind::kInvalid, begin,
                      fmt::format("size of shape {} overflows 64 bits",
                                  shape_text(shape, false)));
}

bool parse_layout(HloLexer* lexer, Shape* shape) {
  lexer->advance(1);
  shape->has_layout = true;
  if (!lexer->take("}")) {
    lexer->skip_space();
    while (lexer->peek() != ':') {
      const size_t begin = lexer->position();
      int64_t dimension = 0;
      if (!lexer->expect_integer("a layout dimension", &dimension))
        return false;
      if (dimension < 0 ||
          static_cast<size_t>(dimension) >= shape->dimensions.size()) {
        return lexer->error(
            ErrorKind::kInvalid, begin,
            fmt::format("layout names dimension {} of an array of rank {}",
                        dimension, shape->dimensions.size()));
      }
      shape->minor_to_major.push_back(dimension);
      if (lexer->take(",")) continue;
      lexer->skip_space();
      if (lexer->peek() == '}' || lexer->peek() == ':') break;
      return lexer->expect("}", "after a layout");
    }
    if (lexer->take(":")) {
      std::string_view suffix;
      if (!lexer->raw_until("}", "a layout", &suffix)) return false;
      shape->layout_suffix = suffix;
    }
    if (!lexer->expect("}", "after a layout")) return false;
  }
  return true;
}

/// `{` opens a layout when it follows directly and holds a number, a colon or
/// nothing.
bool at_layout(const HloLexer& lexer) {
  if (lexer.peek() != '{') return false;
  const char next = lexer.peek(1);
  return next == '}' || next == ':' || (next >= '0' && next <= '9');
}

bool parse_layout_and_check(HloLexer* lexer, Shape* shape) {
  const size_t begin = lexer->position();
  if (!at_layout(*lexer)) return true;
  if (!parse_layout(lexer, shape)) return false;
  const size_t named = shape->minor_to_major.size();
  if (named != 0 && named != shape->dimensions.size()) {
    return lexer->error(
        ErrorKind::kInvalid, begin,
        fmt::format("layout names {} dimensions, the array has {}", named,
                    shape->dimensions.size()));
  }
  return true;
}

bool parse_array(HloLexer* lexer, Shape* shape) {
  const size_t begin = lexer->position();
  size_t length = 0;
  while (length <= kMaxTypeName && is_type_character(lexer->peek(length)))
    ++length;
  const auto type =
      primitive_type_from_name(lexer->text_between(begin, begin + length));
  if (!type)
    return lexer->error(
        fmt::format("expected a shape, found {}", lexer->found()));
  shape->type = *type;
  lexer->advance(length);
  if (!lexer->expect("[", "in a shape")) return false;
  if (!lexer->take("]")) {
    do {
      if (!parse_dimension(lexer, shape)) return false;
    } while (lexer->take(","));
    if (!lexer->expect("]", "after dimensions")) return false;
  }
  bool any_dynamic = false;
  for (const bool dynamic : shape->dynamic)
    any_dynamic = any_dynamic || dynamic;
  if (!any_dynamic) shape->dynamic.clear();
  return check_size(lexer, begin, *shape) &&
         parse_layout_and_check(lexer, shape);
}

bool parse_nested(HloLexer* lexer, int depth, Shape* shape) {
  lexer->skip_space();
  if (lexer->peek() != '(') return parse_array(lexer, shape);
  const size_t begin = lexer->position();
  if (depth >= kMaxTupleNesting) {
    return lexer->error(fmt::format("tuple shape nests deeper than {} levels",
                                    kMaxTupleNesting));
  }
  lexer->advance(1);
  shape->type = PrimitiveType::kTuple;
  if (lexer->take(")")) return true;
  int64_t total = 0;
  do {
    if (!parse_nested(lexer, depth + 1, &shape->elements.emplace_back()))
      return false;
    if (__builtin_add_overflow(total, byte_size(shape->elements.back()),
                               &total)) {
      return lexer->error(ErrorKind::kInvalid, begin,
                          "size of tuple shape overflows 64 bits");
    }
  } while (lexer->take(","));
  return lexer->expect(")", "after tuple elements");
}

}  // namespace

bool parse_shape(HloLexer* lexer, Shape* shape) {
  *shape = Shape();
  return parse_nested(lexer, 0, shape);
}

bool at_shape(const HloLexer& lexer) {
  if (lexer.peek() == '(') return true;
  size_t length = 0;
  while (length <= kMaxTypeName && is_type_character(lexer.peek(length)))
    ++length;
  return length > 0 && lexer.peek(length) == '[';
}

}  // namespace reprise
