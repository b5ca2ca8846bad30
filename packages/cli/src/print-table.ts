/** Prints rows in columns; the last one is as long as it is. Control characters of names are left out. */
export function printTable(rows: readonly (readonly string[])[]): void {
  const widths = (rows[0] ?? []).map((_, column) => Math.max(...rows.map((row) => row[column]?.length ?? 0)))
  for (const row of rows) {
    // oxlint-disable-next-line no-control-regex -- these are what is to be left out
    const cells = row.map((cell, column) =>
      cell.replace(/[\u0000-\u001f\u007f-\u009f]/g, ' ').padEnd(widths[column] ?? 0),
    )
    console.log(cells.join('  ').trimEnd())
  }
}
