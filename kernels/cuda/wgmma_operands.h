// SPDX-License-Identifier: GPL-2.0-or-later
#pragma once

/// The accumulators of a wgmma instruction, which inline assembly wants one by one: their numbers
/// in the text of the instruction, and the elements of the array `d` as operands. 16 to 96 of them.

#define DPA4_WGMMA_NUMBERS_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define DPA4_WGMMA_NUMBERS_32 \
  DPA4_WGMMA_NUMBERS_16       \
  ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define DPA4_WGMMA_NUMBERS_40 DPA4_WGMMA_NUMBERS_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define DPA4_WGMMA_NUMBERS_48 DPA4_WGMMA_NUMBERS_40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define DPA4_WGMMA_NUMBERS_64 \
  DPA4_WGMMA_NUMBERS_48       \
  ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define DPA4_WGMMA_NUMBERS_80 \
  DPA4_WGMMA_NUMBERS_64       \
  ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define DPA4_WGMMA_NUMBERS_96 \
  DPA4_WGMMA_NUMBERS_80       \
  ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"

#define DPA4_WGMMA_OPERANDS_16(d)                                                                 \
  "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]), \
      "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]),    \
      "+f"(d[15])
#define DPA4_WGMMA_OPERANDS_32(d)                                                                \
  DPA4_WGMMA_OPERANDS_16(d), "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]),    \
      "+f"(d[21]), "+f"(d[22]), "+f"(d[23]), "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), \
      "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
#define DPA4_WGMMA_OPERANDS_40(d)                                                             \
  DPA4_WGMMA_OPERANDS_32(d), "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), \
      "+f"(d[37]), "+f"(d[38]), "+f"(d[39])
#define DPA4_WGMMA_OPERANDS_48(d)                                                             \
  DPA4_WGMMA_OPERANDS_40(d), "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), \
      "+f"(d[45]), "+f"(d[46]), "+f"(d[47])
#define DPA4_WGMMA_OPERANDS_64(d)                                                                \
  DPA4_WGMMA_OPERANDS_48(d), "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]),    \
      "+f"(d[53]), "+f"(d[54]), "+f"(d[55]), "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), \
      "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
#define DPA4_WGMMA_OPERANDS_80(d)                                                                \
  DPA4_WGMMA_OPERANDS_64(d), "+f"(d[64]), "+f"(d[65]), "+f"(d[66]), "+f"(d[67]), "+f"(d[68]),    \
      "+f"(d[69]), "+f"(d[70]), "+f"(d[71]), "+f"(d[72]), "+f"(d[73]), "+f"(d[74]), "+f"(d[75]), \
      "+f"(d[76]), "+f"(d[77]), "+f"(d[78]), "+f"(d[79])
#define DPA4_WGMMA_OPERANDS_96(d)                                                                \
  DPA4_WGMMA_OPERANDS_80(d), "+f"(d[80]), "+f"(d[81]), "+f"(d[82]), "+f"(d[83]), "+f"(d[84]),    \
      "+f"(d[85]), "+f"(d[86]), "+f"(d[87]), "+f"(d[88]), "+f"(d[89]), "+f"(d[90]), "+f"(d[91]), \
      "+f"(d[92]), "+f"(d[93]), "+f"(d[94]), "+f"(d[95])
