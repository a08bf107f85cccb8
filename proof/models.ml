(* Defines two data models that Frama-C does not have, from two that it has. model.h compares them
   with the compilers.   SPDX-License-Identifier: MIT *)
open Cil_types

let () =
  File.new_machdep "arm" { Machdeps.gcc_x86_32 with
    char_is_unsigned = true; alignof_longlong = 8; alignof_double = 8;
    sizeof_longdouble = 8; alignof_longdouble = 8; size_t = "unsigned int" };
  File.new_machdep "avr" { Machdeps.gcc_x86_16 with
    sizeof_ptr = 2; size_t = "unsigned int"; ptrdiff_t = "int"; wchar_t = "int";
    sizeof_double = 4; sizeof_longdouble = 4; sizeof_fun = 1;
    alignof_short = 1; alignof_int = 1; alignof_long = 1; alignof_longlong = 1; alignof_ptr = 1;
    alignof_float = 1; alignof_double = 1; alignof_longdouble = 1; alignof_fun = 1;
    alignof_str = 1; alignof_aligned = 1 }
