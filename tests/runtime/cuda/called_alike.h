// Whether functions declared by us are called as those of a vendor's header.
#pragma once

#include <type_traits>

namespace reprise {

/// A type as the binary interface sees it: enums are ints.
template <typename T>
using Plain =
    std::conditional_t<std::is_enum_v<T>, int,
                       std::conditional_t<std::is_pointer_v<T>, void*, T>>;

/// What stands for a vendor's type that is neither enum nor pointer: specialize
/// it for a struct of ours.
template <typename Ours, typename Theirs>
struct IsPassedAlike : std::is_same<Plain<Ours>, Plain<Theirs>> {};

/// Whether two functions take and give the same in registers and on the stack.
template <typename Ours, typename Theirs>
struct IsCalledAlike : std::false_type {};
template <typename A, typename... As, typename B, typename... Bs>
requires(sizeof...(As) ==
         sizeof...(Bs)) struct IsCalledAlike<A (*)(As...), B (*)(Bs...)>
    : std::bool_constant<std::is_same_v<Plain<A>, Plain<B>> &&
                         (IsPassedAlike<As, Bs>::value && ...)> {
};

}  // namespace reprise
