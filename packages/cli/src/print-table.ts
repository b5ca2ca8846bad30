/** Prints rows in columns; the last one is as long as it is. Control characters of names are left out. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  for (const row of rows) {
    const cells = row.map((cell, column) => cell.replace(/\p{Cc}/gu, ' ').padEnd(widths[column] ?? 0))
    console.log(cells.join('  ').trimEnd())
  }
}
