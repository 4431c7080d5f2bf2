"""From a warehouse to partitions, block by block.

- ``adbc``: Databases over ADBC.
- ``blocks``: From a warehouse to Parquet partitions.
- ``csv_files``: Find the dialect of a CSV file, and the lines below its table.
- ``extract``: Cut an extract into blocks by intervals of its key, and mark one that is not finished.
- ``open_tables``: Read Delta and Iceberg tables as sources.
- ``read_files``: Read files as a source of an extract: Parquet, CSV, and tables of other programs.
- ``read_sql``: Read one block of a source as Arrow batches of the declared columns.
- ``sample``: The first million rows of a source as one frame, for a draft. Text stays text.
- ``table_files``: Read files of Stata, SPSS and SAS, and sheets of Excel, as one frame each.
- ``values``: Read values of a source: types without loss, and text as source.yaml declares it.
"""
